r"""Beliefs: the probability that a text states, or none.

Two forms are asked for in Truthgym: an answer ends with `\finalBeliefProb{0.73}`, and a question about belief is
answered with an integer percent. Both are read here, strictly: a wrong number is worse than none.
"""

import re

MARKER = re.compile(
    r"finalBeliefProb\s*(?:\\?\{([^{}]*)\})?"
    # a number that goes on behind the brace is another number
    r"(?P<more>\.?[0-9]|[ \t]*(?:%|(?:-|–|to\b|or\b)[ \t]*[0-9.]))?"
)
PROBABILITY = re.compile(r"0?\.[0-9]{1,40}|[01](?:\.[0-9]{0,40})?")
PLACEHOLDER = "p"
"""What the instruction writes between the braces. A reply that quotes the instruction has not answered by that."""

NOUN = r"(?:probability|belief|credence|chance|likelihood)(?:\s+estimate)?(?:\s+of\s+yes)?"
OTHER_NOUN = r"(?:answer|estimate|forecast)"
WHOSE = r"(?:(?:my|the|final|current|overall|estimated|subjective)\s+)*"
IS = r"\s*(?::|=|\bis\b)\s*"
SAY = r"i(?:'d| would)?\s+(?:say|estimate|put\s+it\s+at)\s+"
ABOUT = r"(?:(?:about|around|roughly|approximately)\s+|~\s*)?"
NUMBER = r"(0|[1-9][0-9]{0,2})"
PERCENT = r"((?:0|[1-9][0-9]{0,2})(?:\.[0-9]{1,12})?)\s?(?:\\?%|percent|per\s+cent)"
BARE = re.compile(rf"{ABOUT}(?:{PERCENT}|{NUMBER})\s*\.?", re.IGNORECASE | re.ASCII)
LABELLED = re.compile(
    rf"(?:(?:{WHOSE}(?:{NOUN}|{OTHER_NOUN}){IS}|{SAY}){ABOUT}{PERCENT}|{WHOSE}{NOUN}{IS}{ABOUT}{NUMBER})\s*\.?",
    re.IGNORECASE | re.ASCII,
)
WRAPPED = re.compile(r"\$(.*)\$|\\boxed\{(.*)\}|\"(.*)\"|'(.*)'|“(.*)”")
BOLD = re.compile(r"(?<![0-9])\*\*|\*\*(?![0-9])|(?<![0-9])__|__(?![0-9])|`")
ALIKE = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2019": "'", "\ufeff": None})
ENDS = (".", ":", "!", "?")
WHOLE = r"(?:0|[1-9][0-9]{0,2})"
LIST = re.compile(rf"(?<![-\w.])\[\s*({WHOLE}(?:\s*,\s*{WHOLE})*)\s*\](?!\w|\.[0-9])", re.ASCII)
LONGEST_LINE = 200
"""Characters. A longer line holds more than an answer."""


def read_belief(text: object) -> float | None:
    r"""Read the probability that a text states.

    - `\finalBeliefProb{0.73}` anywhere is 0.73. The braces hold a decimal from 0 to 1 and nothing else. Where the
      marker stands, nothing else in the text is read.
    - `73`, as the whole text, is 0.73: a bare integer from 0 to 100 is a percentage.
    - `73%`, `73.5 percent` and `0.73%` are 0.73, 0.735 and 0.0073, as the whole text, or as its last line where a new
      sentence begins with it.
    - `Probability: 73%`, `My credence is 73` or `I'd say about 73%` are 0.73, as the whole text or its last line. A
      bare integer needs a word for probability before it, and 1 is then in doubt (certainty?). Other lines that state
      an answer must state the same.

    Bold, quotes, `$...$` and `\boxed{...}` round an answer are passed over, and so is a quoted `\finalBeliefProb{p}`.

    None for all else: a bare decimal (0.73 could be a probability or a percentage), a range or bound, two different
    answers, a number out of range, digits that are not an answer, or no text.

    Args:
        text: A model's reply. Anything that is not a string holds no belief.

    Returns:
        A probability in [0, 1], or None. Never raises, and takes time linear in the text.
    """
    if not isinstance(text, str):
        return None
    if "finalBeliefProb" in text:
        held = [None if match["more"] else match[1] for match in MARKER.finditer(text)]
        return _agreed([_probability(inside) for inside in held if inside is None or inside.strip() != PLACEHOLDER])
    lines = [line.strip() for line in text.translate(ALIKE).strip().splitlines()]
    if len(lines) == 1 and (number := _bare(lines[0])):
        return _percentage(number[1] or number[2])
    answers = [_answer(line, opens) for line, opens in zip(lines, _opens(lines), strict=True)]
    if not answers or answers[-1] is None:
        return None
    return _agreed([answer for answer in answers if answer is not None])


def read_beliefs(text: object, number: int) -> list[float] | None:
    """Read a list of so many probabilities, written as whole percents in JSON: `[40, 55, 70]`.

    Args:
        text: A model's reply.
        number: How many were asked for.

    Returns:
        Probabilities in [0, 1], or None where the text holds no such list, two that differ, another number of them, or
        one that is no whole percent from 0 to 100. Never raises.
    """
    if not isinstance(text, str):
        return None
    found = {tuple(re.findall(r"[0-9]+", held)) for held in LIST.findall(text)}
    if len(found) != 1:
        return None
    values = [_percentage(digits) for digits in found.pop()]
    beliefs = [value for value in values if value is not None]
    return beliefs if len(beliefs) == len(values) == number else None


def _opens(lines: list[str]) -> list[bool]:
    """For each line, whether a sentence begins with it: it is the first, or comes after a blank line or an end."""
    return [True, *(not line or line.endswith(ENDS) or _bare(line) is not None for line in lines[:-1])] if lines else []


def _answer(line: str, opens: bool) -> float | None:
    labelled = LABELLED.fullmatch(_plain(line))
    if labelled and labelled[2] != "1":
        return _percentage(labelled[1] or labelled[2])
    bare = _bare(line)
    return _percentage(bare[1]) if bare and bare[1] and opens else None


def _bare(line: str) -> re.Match[str] | None:
    return BARE.fullmatch(_plain(line))


def _plain(line: str) -> str:
    if len(line) > LONGEST_LINE:
        return ""
    line = BOLD.sub("", line).strip(" *_")
    while wrapped := WRAPPED.fullmatch(line):
        line = next(inside for inside in wrapped.groups() if inside is not None).strip()
    return line


def _agreed(answers: list[float | None]) -> float | None:
    return answers[0] if answers and all(answer == answers[0] for answer in answers) else None


def _probability(held: str | None) -> float | None:
    match = PROBABILITY.fullmatch((held or "").strip(" \t\r\n\\"))
    return value if match and (value := float(match[0])) <= 1 else None


def _percentage(digits: str) -> float | None:
    value = float(digits) / 100
    return value if value <= 1 else None
