r"""Beliefs: the probability that a text states, or none.

Truthgym asks for two forms: an answer ends with `\finalBeliefProb{0.73}`, and a question about belief is answered with
an integer percent. Models also answer in other words. `read_belief` reads what a careful person would read as the
writer's own final probability, and nothing else: a wrong number is worse than none.
"""

import json
import re

from truthgym.scorers.beliefs.sentences import (
    ANSWER,
    APPROXIMATELY,
    DIGIT,
    EMPHASIS,
    FIRST_PERSON,
    PROBABILITY,
    REVISION,
    TEX,
    WORD,
    WORDS,
    Sentence,
    Statement,
    split_sentences,
    statements,
    vocabulary,
)
from truthgym.solvers.thoughts import split_thought

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
    if statement.form == "percent":
        return labelled or in_place
    if statement.form == "decimal":
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
