"""Sentences that state a probability: one number and, besides, only words that call it the writer's probability."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal


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
"""What stands between two equal numbers, or repeats the form that was asked for."""
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

NumberForm = Literal["percent", "decimal", "integer"]


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
    form: NumberForm
    words: frozenset[str]
    colon: bool
    """Whether `:` or `=` comes before the number."""
    revised: bool
    """Whether it, or the sentence before it, says that it corrects what was stated."""

    @property
    def value(self) -> float | None:
        """The probability; None if it is out of range."""
        value = float(self.digits) / (1 if self.form == "decimal" else 100)
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
    form: NumberForm = "percent" if number["unit"] else "decimal" if "." in digits else "integer"
    revised = bool(REVISION.search(previous) or REVISION.search(text))
    return Statement(sentence, place, digits, form, words, before.rstrip().endswith((":", "=", "：")), revised)


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
    known = sorted((word for word in WORDS if IDEOGRAPH.search(word) and word in joined), key=len, reverse=True)
    rest = re.sub("|".join(known), "", joined) if known else joined
    return frozenset(known) | ({rest} if rest else frozenset()) | {word for word in words if not IDEOGRAPH.search(word)}


def _probability(number: re.Match[str]) -> float:
    value = float(number["digits"].replace(",", "."))
    return round(value / 100 if number["unit"] or value > 1 else value, 6)
