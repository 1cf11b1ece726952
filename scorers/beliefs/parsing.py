r"""Beliefs in text: the probability that a reply states in one of a few strict places, or none.

A question for a belief has an answer format: a percentage, or a decimal from 0 to 1 in `\finalBeliefProb{0.73}`. A
number is read by that format, and only where nothing has to be interpreted. A wrong number is worse than none: a reply
that is not read can be asked for again.
"""

import json
import re
from collections.abc import Iterator

from truthgym.solvers.thoughts import split_thought

ALIKE = (
    dict.fromkeys(map(ord, "\u00a0\u2007\u2009\u202f\u3000"), " ")
    | dict.fromkeys(map(ord, "\u200b\u200c\u200d\u2060\ufeff"))
    | {0x2019: "'", 0x2018: "'", 0x201C: '"', 0x201D: '"'}
    | {code: code - 0xFEE0 for code in range(0xFF01, 0xFF5F)}  # full width
)
TAG = re.compile(
    r"(?i)</?(?:answer|probability|final_answer|result|response|belief|s|p)>|<\|[a-z_]{1,20}\|>|<(?:end_of_turn|eos|pad)>"
    r"|\\(?:text|textbf|mathrm|mathbf|displaystyle|left|right|quad)(?![a-z])|\\[()\[\],;! ]"
)
TURN = re.compile(r"(?<=\S)\s*<(?:\|im_end\||\|eot_id\||\|endoftext\||end_of_turn)>")
FENCED = re.compile(r"^```[^\n]*\n(.*?)^```[^\n]*$", re.MULTILINE | re.DOTALL)
DIGITS = r"(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:e-?[0-9]{1,2})?"
NUMBER = rf"{DIGITS}(?:\s?/\s?{DIGITS}| out of 100)?(?:\s?\\?(?:%|percent\b|per ?cent\b|pct\b))?"
BARE = re.compile(
    rf"(?i)(?:(?:~|≈|about|around|approximately|roughly)\s*)?({NUMBER})"
    rf"(?:\s*(?:\(|=|≈|,? or|,? i\.e\.,?|\.\.\.|…)\s*({NUMBER})\)?)?"
)
LABEL = (
    r"(?:(?:my|the|final|best|overall|own|revised|updated|estimated|subjective)\s){0,3}"
    r"(?:answer|probability|prob|belief(?: probability)?|credence|estimate|forecast|prediction|chance|antwort|答案|"
    r"percentage|percent|response|p|wahrscheinlichkeit|probabilité|probabilidad|概率)(?: estimate)?"
    r"(?:\s?\(?(?:of |for )?(?:yes|true|truth|that (?:it|the statement|this) is true|in percent|in %|%)\)?)?"
)
LABELLED = re.compile(rf"(?i)({LABEL})(?:\s?[:=]|\s(?:is|ist|est|es)\b:?)\s*(.*)")
LEADING = re.compile(rf"(0?\.[0-9]{{1,40}}|{DIGITS}\s?%)\.?(?:\s+(?=[A-Z])|\s[–—-]\s(?=[a-zA-Z]))(?![^.]{{0,40}}:)")
FINAL_SENTENCE = re.compile(r"(?i)(?<=[.!?])\s+(?=the final [a-z ]{1,30} is [0-9.]{1,20}%?$)")
PLACEHOLDERS = frozenset({"", "p", "x", "...", "probability", "your probability", "0-1", "0-100"})
"""What an instruction writes between the braces. A reply that quotes the instruction has not answered by that."""
MARKER = re.compile(
    r"(?i)belief\\?_?prob(?:ability)?\b[\"'}>]?\s{0,3}[:=]?\s{0,3}"
    r"(?:\\?[{(\[](?P<body>(?:[^{}()\[\]\n]|\\?[{(\[][^{}()\[\]\n]{0,80}\\?[})\]]){0,80})\\?(?P<close>[})\]])?"
    rf"|(?P<number>{NUMBER}))"
    # a number that goes on behind the brace is another number
    r"(?P<more>\.?[0-9]|\s?\\?%|,?\s*(?:-|–|to\b|or\b)\s*\\?\s?[0-9.])?"
)
LIST_MARK = re.compile(r"[0-9]{1,2}\.")
BOXED = re.compile(r"\\boxed\s?\{([^{}]{1,60})\}")
EXAMPLE = re.compile(
    r"\b(?:i\.e|e\.g|example|such as|for instance|format|form|like|template|instruct\w*|placeholder|written as)\b", re.I
)
OTHERS = re.compile(
    r"(?i)\b(?:market\w*|crowd\w*|experts?|colleagues?|analysts?|consensus|friends?|someone|polls?|user|prior|"
    r"base rate|historical\w*|initial\w*|earlier|previous\w*)\b"
)
"""Words before a number, on its line or the line before, that make it an example, somebody else's or an old one."""
LEAD = re.compile(
    r"(?:so|thus|hence|therefore|overall|finally|taking|weighing|(?:in |my )?(?:final )?(?:conclusion|answer))\b\D*:",
    re.I,
)
RETRACTED = re.compile(
    r"(?i)(?:^|[.!?\n])\W*(?:wait|actually|hmm|no,|correction|sorry)\b|\b(?:scratch that|disregard|ignore th(?:at|is)|"
    r"retract|withdraw|on (?:reflection|second thought)|can(?:'t|not) (?:say|give|put)|revis(?:e|ed|ing)|reconsider|"
    r"i no longer|not my|sample value|is the probability (?:of|that)[^.\n]{0,40}\b(?:no|not|false)\b)"
)
"""Words after a number that take it back."""
VERDICT_NO = re.compile(
    r"(?im)^\W*(?:(?:final |my |the )?answer(?: is)?\W{1,9})?(?:no|false|incorrect|untrue)(?=\W{0,9}(?:$|[.,;:(]))"
)
"""An answer "No" in words. It is not clear whether a number with it is the probability of yes or of no."""
LONGEST = 300  # characters of a line that may hold an answer
WHOLE = "(?:0|[1-9][0-9]{0,2})"
LIST = re.compile(rf"(?<![-\w.])\[\s*({WHOLE}(?:\s*,\s*{WHOLE})*)\s*\](?!\w|\.[0-9])", re.ASCII)


def read_belief(text: object, decimal: bool = False, cut_off: bool = False) -> float | None:
    r"""Read the probability that a reply states. None if it states none, or two that differ.

    It may stand, in this order,

    - in the marker `\finalBeliefProb{0.73}`, with any bracket, or in `\boxed{0.73}`;
    - on the last line that begins with a label: `Probability: 73%`, `**Final answer:** 0.73`, also on two lines;
    - alone on the last line that is not empty, after a finished sentence, or as the whole reply;
    - alone on the first line, if no later place states another.

    A percentage with its sign and a fraction (`2/3`) are always read. Asked for a percentage, a number above 1 is a
    percentage, and so is 1 as the whole reply; 0.65 is read in the marker only. Asked for a `decimal`, a number from 0
    to 1 is read. Not read are a decimal comma, thoughts, examples, a number that the next sentence takes back, and a
    number beside an answer "No"; of a reply that was `cut_off`, its last line and most labels.
    """
    if not isinstance(text, str):
        return None
    text = TURN.split(split_thought(text.translate(ALIKE))[1] or "")[0]
    text = TAG.sub(lambda tag: "\n" if tag[0].startswith("<") else " ", text)
    text = re.sub(r"\\[dt]?frac\{([0-9]+)\}\{([0-9]+)\}", r"\1/\2", text)
    text = FENCED.sub(lambda block: block[1] if block[1].count("\n") == 1 or "{" in block[1] else "", text).strip()
    if (record := _from_json(text)) is not None:
        return _bare(record, decimal, alone=True)
    belief = _in_place(text, decimal, cut_off)
    return None if belief is not None and belief > 0.5 and VERDICT_NO.search(text) else belief


def read_beliefs(text: object, number: int) -> list[float] | None:
    """Read a list of so many probabilities, written as whole percents in JSON: `[40, 55, 70]`."""
    lists = {tuple(re.findall(r"[0-9]+", digits)) for digits in LIST.findall(text if isinstance(text, str) else "")}
    values = [int(digits) / 100 for digits in lists.pop()] if len(lists) == 1 else []
    return values if len(values) == number and all(value <= 1 for value in values) else None


def _in_place(text: str, decimal: bool, cut_off: bool) -> float | None:
    marks = list(_marks(text, decimal))
    lines = _lines(text[marks[-1][0] :] if marks else text)
    if lines and not cut_off:
        lines[-1:] = FINAL_SENTENCE.split(lines[-1])
    if len(lines) == 1 and not marks and not cut_off and (alone := _bare(lines[0], decimal, alone=True)) is not None:
        return alone
    first = _first(lines, decimal, cut_off)
    lines = lines[:-1] if cut_off else lines
    labels = list(_labels(lines, decimal, cut_off))
    last = _bare(lines[-1], decimal) if lines and not cut_off else None
    place = 0
    if marks:
        stated = [value for _, value in marks] + [value for *_, value in labels]
    elif labels:
        stated = [value for _, name, value in labels if name == labels[-1][1]]
        place = labels[-1][0] + 1
    else:
        stated = [] if first is None else [first]
        last = last if len(lines) > 1 and _follows(lines) and not LIST_MARK.fullmatch(lines[-1]) else None
    stated += [] if last is None else [last]
    if not stated or None in stated or RETRACTED.search("\n".join(lines[place:])):
        return None
    return stated[0] if all(same(stated[0], value) for value in stated) else None


def same(a: float | None, b: float | None) -> bool:
    """Whether two probabilities are the same, one of them perhaps rounded: `0.667 (67%)`."""
    return a is not None and b is not None and abs(a - b) < 0.0051


def _marks(text: str, decimal: bool) -> Iterator[tuple[int, float | None]]:
    """The end and the value of each marker that is no example, or else of each boxed number."""
    marks = []
    for match in MARKER.finditer(text):
        line = text[max(0, match.start() - 100) : match.start()].rpartition("\n")[2]
        body = _plain(match["number"] or match["body"] or "")
        before = re.split(r"[.!?]\s", line)[-1]
        if body.lower() in PLACEHOLDERS or EXAMPLE.search(before):
            continue
        value = _bare(body, decimal, marked=True) if match["number"] or match["close"] else None
        if match["more"] and not (match["more"].endswith("%") and not decimal and body.isdigit() and value):
            value = None
        marks.append((match.end(), None if OTHERS.search(before.rpartition(", ")[2]) else value))
    boxed = ((match.end(), _plain(match[1])) for match in BOXED.finditer(text))
    return iter(marks or [(end, _bare(body, decimal)) for end, body in boxed if BARE.fullmatch(body)])


def _lines(text: str) -> list[str]:
    """The lines that are not empty, without emphasis. A label on a line of its own is put before the next line."""
    lines: list[str] = []
    label = ""
    for line in filter(None, map(str.strip, text.split("\n"))):
        plain = _plain(line) if len(line) <= LONGEST else line
        if re.fullmatch(LABEL, plain.rstrip(":"), re.I) and (plain.endswith(":") or plain != line):
            label = f"{plain.rstrip(':')}: "
        elif plain:
            lines.append(label + plain)
            label = ""
    return lines


def _plain(line: str) -> str:
    """A line without emphasis, code, quotes, LaTeX and table marks around it."""
    line = line.replace("$", "") if line.count("$") % 2 == 0 else line
    line = re.sub(r"\*\*(?![0-9])|(?<![0-9])\*\*|__|`|\\(?=[%{}])|\\boxed(?=\{)", "", line)
    line = re.sub(r"\s+\|\s+", ": ", line.strip("\\#|*_ \t"))
    return re.sub(r"^([\"'({])(.*?)[\"')}]([.,]?)$", r"\2\3", line).strip()


def _labels(lines: list[str], decimal: bool, cut_off: bool) -> Iterator[tuple[int, str, float | None]]:
    """Place, label and number of the lines that begin with a label, but for those that the line before introduces."""
    for place, line in enumerate(lines):
        match = LABELLED.fullmatch(line) if len(line) <= LONGEST else None
        introduced = place and lines[place - 1].endswith(":") and not LEAD.fullmatch(lines[place - 1][-LONGEST:])
        if match and re.search("[0-9]", match[2]) and not introduced and (not cut_off or "final" in match[1].lower()):
            yield place, match[1].lower(), _bare(match[2].rstrip("."), decimal)


def _follows(lines: list[str]) -> bool:
    """Whether the last line follows a finished sentence about nobody else's number."""
    before = lines[-2][-LONGEST:]
    finished = re.search(r"[.!?。][\"')\]]*$", before) or BARE.fullmatch(before) or LEAD.fullmatch(before)
    return bool(finished) and not OTHERS.search(before) and not EXAMPLE.search(before)


def _first(lines: list[str], decimal: bool, cut_off: bool) -> float | None:
    """The number on the first line, or before a sentence on it."""
    leading = LEADING.match(lines[0]) if lines else None
    leading = leading if leading and (decimal or leading[1].endswith("%")) else None
    partial = cut_off and len(lines) == 1 and not leading and lines[0][-1] != "%"
    if not lines or partial or LIST_MARK.fullmatch(lines[0]):
        return None
    if len(lines) > 1 and re.match(r"[a-z–—-]", lines[1]):  # the sentence goes on
        return None
    return _bare(leading[1] if leading else lines[0], decimal)


def _from_json(text: str) -> str | None:
    """The value of the one field of a JSON object that has the name of a probability."""
    try:
        record = json.loads(text if text.startswith("{") else "")
    except (ValueError, RecursionError):
        return None
    named = [value for key, value in record.items() if re.fullmatch(LABEL, key.replace("_", " "), re.I)]
    return str(named[0]) if len(named) == 1 else ""


def _bare(text: str, decimal: bool, marked: bool = False, alone: bool = False) -> float | None:
    """The probability that a text without other words holds."""
    match = BARE.fullmatch(text.rstrip(" ,;")[:LONGEST]) or BARE.fullmatch(text.rstrip(" .。,;")[:LONGEST])
    if not match or re.fullmatch(r"[0-9]\.", text):  # "1." may begin a list, and "0." a decimal
        return None
    marked = marked or match[2] is not None  # two numbers that agree explain each other
    values = [_value(number, decimal, marked, alone) for number in match.groups() if number]
    return values[0] if len(values) == 1 or same(*values) else None


def _value(number: str, decimal: bool, marked: bool, alone: bool) -> float | None:
    digits = re.findall(DIGITS, number.replace(" out of ", "/"), re.IGNORECASE)
    value = float(digits[0])
    if len(digits) == 2:
        value = value / float(digits[1]) if float(digits[1]) and digits[0].isdigit() else 2
    if not number[-1].isdigit() and number[-1] != ".":  # with a sign or word for percent
        value = value / 100 if len(digits) == 1 else 2
    elif len(digits) == 1 and not decimal and value:
        fraction = not digits[0].isdigit()
        if value > 1 or (alone and digits[0].lstrip("0") == "1"):
            value /= 100
        elif not (marked and fraction and value < 1):
            return None
    return value if value <= 1 else None
