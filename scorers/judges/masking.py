"""Masks the conclusion of a reasoning, so that a judge rates how it was reached and not what it is."""

import re

HIDDEN = "[hidden]"
MARKER = re.compile(r"(finalBeliefProb\s*\\?\{)[^{}]*(\})")
NUMBER = r"(?<![\d.,])(?:\d{1,12}(?:[.,]\d{1,12})?|\.\d{1,12})"
SPELT = (
    r"\b(?:zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    r"seventeen|eighteen|nineteen|(?:twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety)(?:[ -][a-z]{3,5})?|hundred)"
)
AMOUNT = rf"(?:{NUMBER}|{SPELT})"
PERCENT = r"(?:\\?%|per ?cent\b|percentage points?\b)"
PERCENTAGE = re.compile(
    rf"{AMOUNT}(?:\s?{PERCENT})?\s?(?:-|–|to|and)\s?{AMOUNT}\s?{PERCENT}|{AMOUNT}\s?{PERCENT}", re.IGNORECASE
)
RATIO = re.compile(
    rf"{AMOUNT}[\s-](?:chances?\s)?(?:in|out of|to)[\s-](?:a\s)?{AMOUNT}(?![\w.]\d)|{NUMBER}\s?[/:]\s?{NUMBER}|"
    r"\b(?:two|three|four|nine)[\s-](?:thirds|quarters|fifths|tenths)\b|"
    r"\b(?:a|one)[\s-](?:third|quarter|fifth|tenth)(?=\s(?:of|chance|probability)\b|[.,;)]|\Z)",
    re.IGNORECASE,
)
DECIMAL = re.compile(r"(?<![\w.,])(?:0?\.\d{1,12}|1\.0{1,12})(?![\w]|[.,]\d)")
NAMED = re.compile(
    r"((?:probability|chances?|credence|likelihood|odds|belief|confidence|estimate|forecast)\b[^.!?\n\d]{0,40}?)"
    rf"({NUMBER})",
    re.IGNORECASE,
)
OPENS, CLOSES = r"[\s*_\"'“]{0,4}", r"[\s*_\"'”]{0,4}"
VERDICT = re.compile(
    rf"((?<=[.!?:;]\s)|(?<=\n)|\A)({OPENS})\b(?:yes|no)\b(?={CLOSES}(?:[.,!;:–—-]|\n|\Z))", re.IGNORECASE
)
LINKS = (
    r"is|would be|seems?|looks?|towards?|to|with|on|of|that|it|probably|likely|most likely|more likely|"
    r"almost certainly|very|quite|rather|definitely|certainly|clearly|surely|strongly|indeed"
)
SUBJECTS = (
    r"answer|verdict|conclusion|statement|claim|proposition|it|it['’]s|that['’]s|this|lean(?:ing|s)?|concludes?|"
    r"concluded|bet(?:ting)?|side|say|think|that|so|thus|hence|therefore|overall|ultimately"
)
HEDGES = r"likely |probably |almost certainly |most likely |not "
CONCLUDED = re.compile(
    rf"\b((?:{SUBJECTS})(?:\s(?:{LINKS})\b){{0,5}}[:,]?{OPENS})"
    rf"((?:{HEDGES}){{0,3}}(?:yes|no|true|false|unlikely|likely|probable|improbable|correct|incorrect))"
    rf"(?={CLOSES}(?:[.,!;:)]|\Z|\b(?:because|since|and|given|as)\b))",
    re.IGNORECASE,
)


def mask_conclusion(text: str) -> str:
    r"""Hide what a reasoning concludes: probabilities in any notation, and the concluding yes or no.

    Masked are the value of `\finalBeliefProb{...}`, percentages, decimals from 0 to 1, odds ("two in three"),
    fractions, numbers that follow a word for probability, "Yes" and "No" at the beginning of a sentence, and true,
    false, likely and similar words that characterise the answer or the statement. Numbers of the evidence that look the
    same are masked too; the judge sees the evidence separately. Hints in other words are not masked.

    >>> mask_conclusion("Rain is common there. So it is likely. I put it at 73%.")
    'Rain is common there. So it is [hidden]. I put it at [hidden].'
    """
    text = MARKER.sub(rf"\g<1>{HIDDEN}\g<2>", text)
    for numbers in (PERCENTAGE, RATIO, DECIMAL):
        text = numbers.sub(HIDDEN, text)
    text = NAMED.sub(rf"\g<1>{HIDDEN}", text)
    text = VERDICT.sub(rf"\g<1>\g<2>{HIDDEN}", text)
    return CONCLUDED.sub(rf"\g<1>{HIDDEN}", text)
