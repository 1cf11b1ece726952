r"""Beliefs: the probability that a text states, or none.

Truthgym asks for two forms: an answer ends with `\finalBeliefProb{0.73}`, and a question about belief is answered with
an integer percent. Models also answer in other words. `read_belief` reads what a careful person would read as the
writer's own final probability, and nothing else: a wrong number is worse than none.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from truthgym.solvers.thoughts import split_thought


def vocabulary(words: str) -> frozenset[str]:
    """The set of words in a text."""
    return frozenset(words.split())


LONGEST_SENTENCE = 240
"""Characters. A longer sentence holds more than an answer."""
LONGEST_LINE = 4000
"""Characters. A longer line is passed over."""

PROBABILITY = vocabulary(
    "probability probabilities prob chance chances likelihood credence belief odds likely probable wahrscheinlichkeit "
    "wahrscheinlich probabilité probabilidad probabilidade probabilità вероятность 概率 機率 確率 可能性"
)
ANSWER = vocabulary(
    "answer output result assistant percentage percent score estimate forecast prediction response guess assessment "
    "conclusion judgment judgement antwort schätzung réponse estimation respuesta estimación 答案"
)
FIRST_PERSON = vocabulary("i i'd i'll i'm my ich je j'estime diría 我")
APPROXIMATELY = vocabulary("about around roughly approximately approx nearly circa maybe perhaps p")
CONFIDENCE = vocabulary("sure certain confident")
WORDS = (
    PROBABILITY
    | ANSWER
    | FIRST_PERSON
    | APPROXIMATELY
    | vocabulary(
        "a an the our it it's its that that's there there's this is are be am at to of on in with for as by so thus "
        "therefore hence overall say think believe put place assign give go going settle settling land lean would will "
        "now still currently remain remains stay stays stands comes out final best current honest personal subjective "
        "own point single central posterior updated revised new rough calibrated estimated yes true statement "
        "proposition claim event question happening happens occurring occurs being resolves resolving resolve whole "
        "integer here summary short very likely unlikely low high probably rated all everything considered level value "
        "number one rate rating scale ok okay certainly here's actually wait correction reflection second thought "
        "reconsidering again scratch instead revise revising update updating edit let me correct correcting change "
        "changing after thinking lower raise from up down adjust adjusted die das der meine mein ist liegt bei beträgt "
        "steht etwa rund ungefähr würde sagen schätze auf dass ja wahr la le ma mon est de du dirais finale è environ "
        "à oui que mi el es aproximadamente alrededor del un una sí 的 是 为 约 大约 最终 估计 认为 这个 该 说法 "
        "陈述 真 这 有"
    )
)

REVISION = re.compile(
    r"\b(?:wait|actually|correction|on (?:reflection|second thought)|reconsider\w*|thinking again|scratch that|"
    r"revis\w+|updat\w+|let me correct|correct (?:that|this|my)|adjust\w*)\b"
)
OTHERWISE = re.compile(
    r"\b(?:no|not|never|none|nothing|neither|cannot|fail\w*|false|wrong|mistaken|incorrect|untrue|against|opposite|"
    r"otherwise|if|unless|given|assuming|suppos\w+|conditional\w*|observ\w*|seeing|seen|see|would|were|had|my|nicht|"
    r"kein\w*|falsch|pas|faux|falso|which|multiplied|divided|scenarios?)\b|n't\b"
)
"""Words that make a clause another proposition than the one asked about, or a calculation."""
SOMEONE_ELSE = re.compile(
    r"\b(?:if|unless|assuming|suppos\w+|would|could|might|before|initially|originally|previous\w*|prior|"
    r"market\w*|crowd|experts?|analysts?|polls?|according|others?|someone|people|not|given (?!all|the|this|these|that|"
    r"everything|what|how|my))\b|n't\b"
)
"""Words before a comma that make the number after it somebody else's, or one of another time or condition."""

NUMBER = re.compile(
    r"(?<![A-Za-z0-9_.,])(?P<digits>(?:0|[1-9][0-9]{0,2})(?:[.,][0-9]{1,12})?|[.,][0-9]{1,12})"
    r"(?P<unit>\s?(?:%|percent\b|per ?cent\b|pct\b|パーセント|prozent\b|pour cent\b|por ciento\b))?"
    r"(?![\w/°^]|[.,:][0-9])"
)
DIGIT = re.compile(r"[0-9]")
WORD = re.compile(r"[^\W\d_]+(?:['-][^\W\d_]+)*")
IDEOGRAPH = re.compile(r"[\u4e00-\u9fff]")
MARKS = frozenset("():=~≈,.!*'\"：≃-–—。")
SIGN = re.compile(r"[-–+<>$€£#/^]$")
OF_100 = re.compile(r"\s?(?:/\s?100|(?:out of|in) (?:100|a hundred))\b(?!\s?%)")
SCALE = re.compile(
    r"\(?(?:\b(?:from|between|on a scale (?:of|from)) )?(?<![0-9.])0\s?%?\s?(?:-|–|to|and)\s?(?:100\s?%?|1(?:\.0)?)"
    r"(?![0-9%]|\.[0-9])\)?"
)
P_YES = re.compile(
    r"p\s?\(\s*(?:yes|true|y|event|(?:the |this )?(?:it|statement|proposition|claim)(?: is true)?)\s*\)"
    r"|\((?:of )?(?:yes|true|p|%|in percent|in %)\)"
)
NAMED = re.compile(
    r"\b(?:probability|chances?|likelihood|credence|belief|odds|confidence|wahrscheinlichkeit|probabilité|probabilidad)"
    r"\s+(?:estimate\s+)?(?:that|of|for|dass|que|de que)\s+(?P<clause>[^%:=]*)"
    r"(?P<is>\s*(?:[:=]|\b(?:is|at|as|to be|stands at|ist|est|es)\b))"
)
AFTER_NUMBER = re.compile(
    r"\s*-?(?:chance|probability|likelihood|credence|likely|odds|sure|certain|confident|wahrscheinlich\w*|de \w+)\b"
)
PROPOSITION = re.compile(r"\s+(?:that|of|for|dass|que|it)\s+(?P<clause>[^%]*)$")
ASKED = re.compile(r"(?:it|this|yes|the (?:statement|claim|proposition|event))\b(?!.*\b(?:difficult|hard|uncertain))")
"""What a writer who is "73% sure that ..." must be sure of."""
SPREAD = re.compile(r"^\s*(?:±|\+/-)\s*[0-9]{1,2}\s?%?")
REMARK = re.compile(r"\([^()0-9%]*\)")
BECAUSE = re.compile(r",?\s+(?:because|since|as (?:the|explained|shown|calculated))\b[^%]*$")
WHICH = re.compile(r",\s+which (?:is|equals)(?: an? (?:decimal|probability|percentage|whole number)\b)?\s*")
"""What stands between two equal numbers, or repeats the format that was asked for."""
CALCULATION = re.compile(r"\b(?:is|are)\s+[0-9(]|[0-9]\s*[-+*/×]\s*[0-9(]")

EMPHASIS = re.compile(r"(?<![0-9*])\*+|\*+(?![0-9*])|(?<!\w)__?|__?(?!\w)|`+")
EMPHATIC = re.compile(r"\W{0,9}(?:\*\*|__|`|\\boxed\{|\$|\"|'|\\\().*[0-9].*")
TEX = re.compile(
    r"\\+(?:text|textbf|mathrm|mathbf|mbox|boxed|displaystyle|approx|left|right|quad)(?![a-z])|\\(?=[%{}])"
    r"|\\[()\[\],;! ]|[{}]"
)
WRAPPED = re.compile(r"\[([^\[\]]*)\]|'([^']*)'|\"([^\"]*)\"")
END = re.compile(r"(?<=[.!?;])\s+(?=\S)|(?<=[。！？；])|\s+[–—-]\s+(?![0-9.~])|,\s+(?:but|so)\s+")
LEADING_NUMBER = re.compile(r"[~≈]?[0-9.,]{1,6}\s?%?\s+[–—-]\s+(?![0-9.~])")
ENDS = (".", ":", "!", "?", "。")

AnswerFormat = Literal["percent", "decimal", "integer"]


@dataclass(frozen=True)
class Sentence:
    """A sentence in lower case, without emphasis and LaTeX."""

    text: str
    line: int
    """Number of its line."""
    alone: bool
    """Whether it is all of its line, but for an explanation after a dash."""
    opens: bool
    """Whether it follows the end of a sentence, a blank line or nothing."""
    first_paragraph: bool
    """Whether it is in the first line, and a blank line or nothing follows."""
    after_blank: bool
    """Whether a blank line comes before it."""
    emphatic: bool
    """Whether its line is bold, quoted, or a formula."""

    @property
    def has_probability(self) -> bool:
        """Whether it holds a percentage or a decimal."""
        return any(match["unit"] or not match["digits"].isdigit() for match in NUMBER.finditer(self.text))


@dataclass(frozen=True)
class Statement:
    """The number of a sentence that holds no other, and only `WORDS`."""

    sentence: Sentence
    place: int
    """Number of the sentence in the text."""
    digits: str
    answer_format: AnswerFormat
    words: frozenset[str]
    colon: bool
    """Whether `:` or `=` comes before the number."""
    revised: bool
    """Whether it, or the sentence before it, says that it corrects what was stated."""

    @property
    def value(self) -> float | None:
        """The probability; None if it is out of range."""
        value = float(self.digits) / (1 if self.answer_format == "decimal" else 100)
        return value if value <= 1 else None

    @property
    def final(self) -> bool:
        """Whether it says that it is final, or corrects what was stated."""
        return self.revised or bool({"final", "最终"} & self.words)


def split_sentences(text: str) -> list[Sentence]:
    """Sentences of a text. A heading without a number (`**Final probability:**`) is put before the next line."""
    lines = [line.strip() for line in text.splitlines()]
    sentences: list[Sentence] = []
    label, opens = "", True
    for number, line in enumerate(lines):
        plain = "" if len(line) > LONGEST_LINE else _plain(line)
        if not plain or line.startswith("```"):
            opens = opens or not line
            continue
        if _is_label(plain, line):
            label = plain.rstrip(":") + ": "
            continue
        parts = [part for part in END.split(label + plain) if part.strip()]
        alone = len(parts) == 1 or bool(LEADING_NUMBER.match(plain))
        first = not sentences and (number + 1 == len(lines) or not lines[number + 1])
        blank = number > 0 and not lines[number - 1]
        emphatic = bool(EMPHATIC.fullmatch(line[:300]))
        sentences += [
            Sentence(part, number, alone, opens or k > 0, first, blank, emphatic) for k, part in enumerate(parts)
        ]
        label, opens = "", plain.endswith(ENDS) or bool(NUMBER.fullmatch(plain))
    return sentences


def statements(sentences: list[Sentence]) -> Iterator[Statement]:
    """The sentences that hold one number and only `WORDS`. Whether it is an answer depends on its place."""
    before = ""
    for place, sentence in enumerate(sentences):
        statement = _statement(sentence, place, before) if len(sentence.text) <= LONGEST_SENTENCE else None
        if statement:
            yield statement
        before = sentence.text


def _plain(line: str) -> str:
    line = line.replace("$", "") if line.count("$") % 2 == 0 else line
    line = TEX.sub("", EMPHASIS.sub("", line.replace("\\approx", "≈"))).strip(" #|*_•").replace("|", " : ")
    line = re.sub(r"^(?:-\s+|>\s+(?![0-9]))", "", line).strip()
    wrapped = WRAPPED.fullmatch(line)
    return (next(part for part in wrapped.groups() if part is not None) if wrapped else line).lower()


def _is_label(plain: str, line: str) -> bool:
    words = {*WORD.findall(plain)}
    title = plain.endswith(":") or line.startswith("#") or EMPHASIS.search(line)
    return (
        bool(title and len(plain) < 80 and not DIGIT.search(plain) and words & (PROBABILITY | ANSWER))
        and words <= WORDS
    )


def _statement(sentence: Sentence, place: int, previous: str) -> Statement | None:
    text = P_YES.sub(" probability ", SCALE.sub(" ", OF_100.sub("%", sentence.text)))
    numbers = sorted(NUMBER.finditer(text), key=lambda match: (not match["unit"], match["digits"].isdigit()))
    if not numbers:
        return None
    number = numbers[0]
    before = text[: number.start()]
    after = BECAUSE.sub("", REMARK.sub("", SPREAD.sub("", text[number.end() :])))
    for other in numbers[1:]:  # 66% (0.66)
        if _probability(other) == _probability(number):
            before, after = (part.replace(other[0], " ", 1) for part in (before, after))
    before, after = WHICH.sub(" ", before), WHICH.sub(" ", after)
    clause = PROPOSITION.search(after) if AFTER_NUMBER.match(after) else None
    named = NAMED.search(before)
    clauses = [part["clause"] for part in (clause, named) if part]
    if any(OTHERWISE.search(part) or CALCULATION.search(part) for part in clauses):
        return None
    if "(" in before.rpartition(")")[2] and ")" not in after:
        return None
    if clause:
        after = after[: clause.start()]
    if named:
        before = f"{before[: named.start()]}probability {before[named.start('is') :]}"
    before = _without_lead(before)
    words = _words(f"{before} {after}")
    marks = {*re.sub(r"[\w\s]", "", before + after)}
    allowed = WORDS | CONFIDENCE if clause and ASKED.match(clause["clause"]) else WORDS
    if SIGN.search(before) or DIGIT.search(before + after) or not words <= allowed or not marks <= MARKS:
        return None
    digits = number["digits"].replace(",", ".")
    answer_format: AnswerFormat = "percent" if number["unit"] else "decimal" if "." in digits else "integer"
    revised = bool(REVISION.search(previous) or REVISION.search(text))
    return Statement(sentence, place, digits, answer_format, words, before.rstrip().endswith((":", "=", "：")), revised)


def _without_lead(before: str) -> str:
    """The text before the number without a clause that gives the reasons: `Weighing all of this, I'd say`."""
    lead, comma, rest = before.rpartition(",")
    own = {*WORD.findall(rest)} & (FIRST_PERSON | PROBABILITY | ANSWER)
    return rest if comma and own and not SOMEONE_ELSE.search(lead) and "%" not in lead else before


def _words(text: str) -> frozenset[str]:
    """The words of a text. Chinese, which has no spaces, is split into the words of `WORDS`, if that is possible."""
    words = frozenset(WORD.findall(text))
    joined = "".join(word for word in words if IDEOGRAPH.search(word))
    if not joined:
        return words
    parts = sorted((word for word in WORDS if IDEOGRAPH.search(word) and word in joined), key=len, reverse=True)
    rest = re.sub("|".join(parts), "", joined) if parts else joined
    return frozenset(parts) | ({rest} if rest else frozenset()) | {word for word in words if not IDEOGRAPH.search(word)}


def _probability(number: re.Match[str]) -> float:
    value = float(number["digits"].replace(",", "."))
    return round(value / 100 if number["unit"] or value > 1 else value, 6)


PLACEHOLDERS = frozenset({"p", "x", "...", "probability", "your probability"})
"""What an instruction writes between the braces. A reply that quotes the instruction has not answered by that."""
POLITE = vocabulary("true yes likely unlikely very sure ok okay certainly alright of course answer the my is here it's")
EXAMPLE = re.compile(
    r"\b(?:i\.e|example|such as|for instance|format|form|like|template|instruct\w*|placeholder|written as|market\w*|"
    r"crowd\w*|expert\w*|colleague\w*|analyst\w*|consensus|friend\w*|someone)\b"
)
"""Words before a marker in its sentence that make it an example, or somebody else's."""
RETRACTION = re.compile(r"\b(?:disregard|ignore (?:that|this|the)|withdraw|retract|(?:can't|cannot) (?:say|give))\b")
RETREAT = re.compile(r"\b(?:however|but|although|cannot|can't|unable|unsure|not sure)\b")
VERDICT_NO = re.compile(
    r"(?:^|\n|[.:!]\s)[\W_]{0,20}(?:(?:final |my |the )?answer(?: is)?\W{1,9})?"
    r"(?:no|false|incorrect|untrue)(?=\W{0,9}(?:$|\n|[.,;:(*]))",
    re.IGNORECASE,
)
"""An answer "No" in words. It is not clear whether a number with it is the probability of yes or of no."""
COMPLEMENT = re.compile(
    r"[,;]?\s?\b(?:p\s?\(\s?(?:no|false)\s?\)|no|false)\s?[=:]\s?[0-9.,]{0,6}[0-9]\s?%?"
    r"|[,;]?\s?(?:\band )?(?:an? )?\b[0-9.]{1,6}\s?% (?:chance (?:that )?(?:it is |it's |of )?)?(?:false|no)\b",
    re.IGNORECASE,
)
"""The probability of no, stated after that of yes."""
MARKER = re.compile(
    r"(?:\bf|\f)inal\\?_?belief\\?_?prob(?:ability)?\b[\"'}>]?[ \t]*[:=]?[ \t]*[\"']?"
    r"(?:(?P<body>\\?[{(\[](?:[^{}()\[\]]|[{(\[][^{}()\[\]]{0,40}[})\]]){0,80}(?P<close>[})\]]|(?=\n))?"
    r"|(?:0?\.[0-9]{1,12}|[01](?:\.[0-9]{1,12})?)(?![0-9]))"
    # a number that goes on behind the brace is another number
    r"(?P<more>\.?[0-9]|[ \t]*(?:\\?%|(?:-|–|to\b|or\b)[ \t]*[0-9.]))?)?",
    re.IGNORECASE,
)
DECIMAL = re.compile(r"0?[.,][0-9]{1,40}|[01](?:[.,][0-9]{0,40})?")
PERCENTAGE = re.compile(r"((?:0|[1-9][0-9]{0,2})(?:[.,][0-9]{1,12})?)\s?%")
TAG = re.compile(
    r"</?(?:answer|probability|final_answer|result|response|belief|s|p)>|<\|[a-z_]{1,20}\|>|<(?:end_of_turn|eos|pad)>",
    re.IGNORECASE,
)
PICTURE = re.compile("[\u2190-\u21ff\u2600-\u27bf\u2b00-\u2bff\ufe0f\U0001f000-\U0001faff]\\s?")
ALIKE = (
    dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " ")
    | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
    | {0x2019: "'", 0x2018: "'", 0x201C: '"', 0x201D: '"'}
    | {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full width
)
FINISHED = re.compile(r".*(?:[.!?。](?=\s)|[\n}%])", re.DOTALL)
"""A text up to the end of its last finished sentence or percentage."""
LIST = re.compile(
    r"(?<![-\w.])\[\s*((?:0|[1-9][0-9]{0,2})(?:\s*,\s*(?:0|[1-9][0-9]{0,2}))*)\s*\](?!\w|\.[0-9])", re.ASCII
)


def read_belief(text: object, decimal: bool = False, cut_off: bool = False) -> float | None:
    r"""Read the probability that a text states as the writer's own final one.

    - `\finalBeliefProb{0.73}` anywhere is 0.73. The braces hold a decimal from 0 to 1, or a percentage with its sign;
      LaTeX around the number (`\text{0.73}`), the kind of bracket and upper or lower case do not matter. A marker that
      quotes the instruction or an example is passed over. Otherwise:
    - `73`, as the whole text, as its first or last paragraph, or emphasised on a line of its own (`**73**`), is 0.73: a
      bare integer from 0 to 100 is a percentage. So is `73%` on a line of its own where a sentence begins.
    - A sentence that holds one number and, besides, only words that name the writer's probability: `Final
      probability: 73%` (also on two lines), `P(yes) = 0.73`, `A 73% chance.`, `Weighing this, my best estimate is 73%`.
      A bare integer or decimal needs a word for probability, or `Answer:`, before it. `Answer: 1` is in doubt
      (certainty, or one percent?), so unread; `1` as the whole text is one percent.
    - `{"probability": 0.73}` as the whole text.

    Of two different statements the last is read if it says that it corrects the first, or alone says that it is final.
    After the last statement no other percentage may follow, except as a reason for an answer that comes first.

    None for all else: a bare decimal (0.73 could be a probability or a percentage), a range or bound, two different
    answers, a number out of range, a probability of "no", of somebody else or under a condition, an answer that is
    taken back, digits that are not an answer, thoughts without an answer, or no text.
    """
    if not isinstance(text, str):
        return None
    text = _without_thoughts(text.translate(ALIKE))
    if cut_off:
        finished = FINISHED.match(text)
        text = finished[0] if finished else ""
    text = TAG.sub("\n", PICTURE.sub("", text)).strip()
    markers = [match for match in MARKER.finditer(text) if match["body"] and not _is_quoted(text, match)]
    if not markers:
        record = _from_json(text, decimal) if "{" in text[:20] else None
        return _stated(MARKER.sub(" ", text), decimal, cut_off) if record is None else record
    values = [_marked(match) for match in markers]
    after = text[markers[-1].end() :].lower()
    differ = len({*values}) > 1 and not REVISION.search(text[markers[-2].end() : markers[-1].start()].lower())
    final = _stated(after, decimal) if re.search(r"\b(?:final|answer)\b", after) or REVISION.search(after) else None
    if None in values or differ or RETRACTION.search(after) or final not in (None, values[-1]):
        return None
    return values[-1]


def read_beliefs(text: object, number: int) -> list[float] | None:
    """Read a list of so many probabilities, written as whole percents in JSON: `[40, 55, 70]`."""
    if not isinstance(text, str):
        return None
    lists = {tuple(re.findall(r"[0-9]+", digits)) for digits in LIST.findall(text)}
    values = [int(digits) / 100 for digits in lists.pop()] if len(lists) == 1 else []
    return values if len(values) == number and all(value <= 1 for value in values) else None


def _without_thoughts(text: str) -> str:
    """The text after a visible chain of thought; empty if that was cut off."""
    text = text[text.rfind("<|message|>") + 11 :] if "<|message|>" in text else text
    for tag in ("think", "thinking", "reasoning"):
        text = split_thought(text, tag)[1] or ""
    return text


def _is_quoted(text: str, marker: re.Match[str]) -> bool:
    """Whether a marker holds a placeholder, or its sentence says that it is an example or somebody else's."""
    line = text[max(0, marker.start() - 100) : marker.start()].rpartition("\n")[2].lower().replace("e.g.", "example")
    return _inside(marker).lower() in PLACEHOLDERS or bool(EXAMPLE.search(re.split(r"[.!?]\s", line)[-1]))


def _inside(marker: re.Match[str]) -> str:
    return re.sub(r"^p\s*=\s*", "", TEX.sub("", marker["body"]).strip(" \t\r\n\\\"'`*()[]~≈"))


def _marked(marker: re.Match[str]) -> float | None:
    inside = _inside(marker)
    if marker["more"] or (marker["body"].lstrip("\\")[0] in "{([" and marker["close"] is None):
        return None
    percentage, decimal = PERCENTAGE.fullmatch(inside), DECIMAL.fullmatch(inside)
    value = float(percentage[1].replace(",", ".")) / 100 if percentage else None
    value = float(decimal[0].replace(",", ".")) if decimal else value
    return value if value is not None and value <= 1 else None


def _from_json(text: str, decimal: bool) -> float | None:
    try:
        record = json.loads(re.sub(r"^```\w*|```$", "", text).strip())
    except (ValueError, RecursionError):
        return None
    words = {key: {*WORD.findall(key.lower())} for key in record} if isinstance(record, dict) else {}
    named = [record[key] for key, found in words.items() if found <= WORDS and found & (PROBABILITY | ANSWER)]
    if len(named) != 1 or isinstance(named[0], bool) or not isinstance(named[0], int | float | str):
        return None
    return _stated(f"Probability: {named[0]}", decimal)


def _stated(text: str, decimal: bool, cut_off: bool = False) -> float | None:
    text = COMPLEMENT.sub("", text)
    sentences = split_sentences(text)
    if not sentences:
        return None
    whole = _Text(sentences)
    answers = [statement for statement in statements(sentences) if _is_answer(statement, whole, decimal)]
    if not answers or any(answer.value is None for answer in answers) or VERDICT_NO.search(EMPHASIS.sub("", text)):
        return None
    last = answers[-1]
    others = [answer for answer in answers if answer.value != last.value]
    if others and (not last.final or (others[-1].final and not last.revised)):
        return None
    if cut_off and not last.final and last.sentence.line != sentences[0].line:
        return None
    after = sentences[last.place + 1 :]
    words = " ".join(sentence.text for sentence in after)
    if RETRACTION.search(words):
        return None
    if any(sentence.has_probability for sentence in after):
        first, begin = last.sentence.line == sentences[0].line, sentences[0].line
        reasons = first and all(sentence.line > begin for sentence in after if DIGIT.search(sentence.text))
        return None if not reasons or REVISION.search(words) or RETREAT.search(words) else last.value
    return last.value


class _Text:
    """What the place of a bare number is judged by."""

    def __init__(self, sentences: list[Sentence]) -> None:
        self.last = len(sentences) - 1
        self.one_line = sentences[0].line == sentences[-1].line
        self.one_number = sum(sentence.has_probability for sentence in sentences) == 1
        self.polite = all({*WORD.findall(sentence.text)} <= POLITE for sentence in sentences)
        self.same = len({sentence.text.strip(". ") for sentence in sentences if DIGIT.search(sentence.text)}) == 1


def _is_answer(statement: Statement, text: _Text, decimal: bool) -> bool:
    """Whether the number of a statement is an answer, by its words or its place."""
    sentence, words, first, last = (
        statement.sentence,
        statement.words,
        statement.place == 0,
        statement.place == text.last,
    )
    labelled = bool(words & (PROBABILITY | ANSWER | FIRST_PERSON)) or words in ({"yes"}, {"true"})
    labelled = labelled or bool(REVISION.search(sentence.text))
    answered = bool(words & PROBABILITY) or (bool(words & (ANSWER | {"p"})) and statement.colon)
    bare = words <= APPROXIMATELY and sentence.opens
    in_place = bare and (sentence.alone or first or (text.one_number and last and statement.place < 3))
    if statement.answer_format == "percent":
        return labelled or in_place
    if statement.answer_format == "decimal":
        return answered or (decimal and (labelled or in_place))
    if statement.digits == "1" and (decimal or words):
        return False
    # "1." may begin a list, and "0." a decimal, that was cut off.
    cut_off = sentence.text.endswith(".") and (
        (len(statement.digits) == 1 and words <= APPROXIMATELY) or statement.digits == "0"
    )
    if cut_off:
        return False
    if words & (PROBABILITY | FIRST_PERSON) or "answer" in words:
        return True
    only = text.polite and text.same
    paragraph = sentence.alone and last and sentence.after_blank and len(statement.digits) > 1 and not decimal
    alone = sentence.alone and (text.one_line or sentence.emphatic or sentence.first_paragraph or only)
    return answered or (words <= APPROXIMATELY and (only or paragraph or alone))
