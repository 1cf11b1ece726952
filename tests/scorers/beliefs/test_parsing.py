import json
import random
import string
import time
from pathlib import Path

import pytest

from truthgym.scorers.beliefs.parsing import read_belief, read_beliefs

TRAPS = Path(__file__).parent / "traps.jsonl"

PERCENTAGES = {
    "73": 0.73, "73%": 0.73, "73 %": 0.73, "73\u00a0%": 0.73, "0.73%": 0.0073, "73.5": 0.735, "73 percent": 0.73,
    "0": 0.0, "100": 1.0, "1": 0.01, "04": 0.04, " 73 \n": 0.73, "\ufeff73": 0.73, "'73'": 0.73, "**73%**": 0.73,
    "73.": 0.73, r"$73\%$": 0.73, r"\boxed{73}": 0.73, "73,": 0.73, "７３%": 0.73, "73/100": 0.73, "2/3": 2 / 3,
    r"\finalBeliefProb{\frac{73}{100}}": 0.73, r"$\dfrac{2}{3}$": 2 / 3,
    "Probability: 73%": 0.73, "**Probability:** 73%": 0.73, "**Final answer:** **73%**": 0.73, "Answer: 3": 0.03,
    "My credence is 73.": 0.73, "Probability of yes: 73": 0.73, "| Probability | 73% |": 0.73,
    "The clouds are low.\n\nProbability: 73": 0.73, "**Final probability:**\n\n73%": 0.73,
    "### Probability\n73": 0.73, "Prices rose 3% that year.\n73%": 0.73, "70%\n70%": 0.7, "Two agree.\n\n**73**": 0.73,
    "73%\n\nThe market stood at 60%, and 20% of such bills pass.": 0.73, "73% – two of the three agree.": 0.73,
    "Probability: 60%\nFinal probability: 73%": 0.73, "```\n73%\n```": 0.73, r"\( 73\% \)": 0.73, "73% (0.73)": 0.73,
    '{"probability": 73}': 0.73, '```json\n{"percent": 73}\n```': 0.73, "<answer>73%</answer>": 0.73,
    "<think>60%? 65%?</think>73%": 0.73, "Wahrscheinlichkeit: 73 %": 0.73, "概率：73%": 0.73,
    "finalBeliefProb{73}": 0.73, r"\finalBeliefProb{73}.": 0.73, "finalBeliefProb(97.5)": 0.975,
    "finalBeliefProb{0.65}": 0.65, "finalBeliefProb{65%}": 0.65, r"\finalBeliefProb{65}%": 0.65,
}  # fmt: skip

DECIMALS = {
    "0.73": 0.73, ".73": 0.73, "0.7777777777777778": 0.7777777777777778, "`0.73`": 0.73, r"\boxed{0.73}": 0.73,
    "73%": 0.73, "1e-3": 0.001, "1.0": 1.0, "0.73.": 0.73, "The answer is 0.73.": 0.73, "P(yes) = 0.73": 0.73,
    "0.9 (90%)": 0.9, "Probability: 0.9 = 90%": 0.9, "0.9 The clouds are low and the wind is rising.": 0.9,
    "Clouds. The final belief probability is 0.4": 0.4,
    r"\finalBeliefProb{0.73}": 0.73, r"\finalBeliefProb{ .73 }": 0.73, r"\finalBeliefProb\{0.73\}": 0.73,
    r"\finalBeliefProb{1}": 1.0, r"\finalBeliefProb{0}": 0.0, r"I think 40%, no: \finalBeliefProb{0.73}.": 0.73,
    "\\finalBeliefProb{0.73}\n\n1. A reason": 0.73, r"\finalBeliefProb{{0.7}}": 0.7, r"\finalBeliefProb{0.73},": 0.73,
    r"$\finalBeliefProb{0.73}$ and again \finalBeliefProb{0.73}": 0.73, "FinallyBeliefProb{0.99}": 0.99,
    r"The form is \finalBeliefProb{p}. \finalBeliefProb{0.73}": 0.73, "final_belief_prob: 0.73": 0.73,
    r"\finalBeliefProb{\text{0.73}}": 0.73, r"$$\boxed{\finalBeliefProb{0.73}}$$": 0.73,
    r"An example: \finalBeliefProb{0.5}. Mine: \finalBeliefProb{0.73}": 0.73, r"\finalBeliefProb 73%": 0.73,
    r"The market says 60%, but I say \finalBeliefProb{0.73}": 0.73, r"\finalBeliefProb[0.73]": 0.73,
}  # fmt: skip

UNREAD = [
    "", "none", "74,84", "73,5%", "72, 72.", "40, 47, 48", "70-80%", "70 to 80", ">73%", "at least\n73%",
    "It is not\n73%",
    "70% or 80%", "70%\n80%", "Probability: 70%\nProbability: 80%", "101%", "-5%", "+73%", "٧٣%", "nan", "inf%",
    "$73", "73 degrees", "Step 3", "1.", "Probability of no: 73%", "P(no) = 27%", "If it rains, 73%.",
    r"\finalBeliefProb{}", r"\finalBeliefProb{p}", r"\finalBeliefProb{-0.1}", r"\finalBeliefProb{0.7 or 0.8}",
    r"\finalBeliefProb{0.7", r"\finalBeliefProb{0.3}5", r"\finalBeliefProb{0.6} to 0.8",
    r"\finalBeliefProb{0.6}, or \ 0.8",
    r"\finalBeliefProb{0.7} \finalBeliefProb{0.8}", r"\finalBeliefProb{0.7} \finalBeliefProb{none}",
    r"I will end with a line like \finalBeliefProb{0.73}.", r"The market's own \finalBeliefProb{0.73}",
    r"\finalBeliefProb{0.3}\n\nProbability: 70%".replace(r"\n", "\n"), "False. I'm sure.\n\n90%",
    r"\finalBeliefProb{0.3} Please disregard that.", "**No**\n\nProbability: 75%", "Base rate:\n12%",
    "My view is mixed.\nThe market says 73%.", "<think>73%", "[THINK]73%", "73%. Actually no, I can't say.",
    "I'd say about 73%.", "There is a 73% chance that the dam holds.", "Answer: 70%\n\nWait, no.",
    '{"number": 73}', '{"probability": [73]}', '{"probability": 73, "answer": 40}',
]  # fmt: skip
OF_ONE_FORMAT = {
    "percent": ["0.73", ".73", "1.0", "Answer: 1", "Probability: 0.73", "finalBeliefProb{1}"],
    "decimal": ["1.83", "72", r"\finalBeliefProb{69.0}", "Answer: 73", r"\finalBeliefProb{1}%"],
}


@pytest.mark.parametrize("text", PERCENTAGES)
def test_a_percentage_is_read_where_one_was_asked_for(text: str) -> None:
    assert read_belief(text) == pytest.approx(PERCENTAGES[text], abs=1e-15)


@pytest.mark.parametrize("text", DECIMALS)
def test_a_decimal_is_read_where_one_was_asked_for(text: str) -> None:
    assert read_belief(text, decimal=True) == pytest.approx(DECIMALS[text], abs=1e-15)


@pytest.mark.parametrize("text", UNREAD)
def test_a_text_without_one_belief_in_its_place_is_not_read(text: str) -> None:
    assert (read_belief(text), read_belief(text, decimal=True)) == (None, None)


def test_a_number_of_the_other_format_is_not_read() -> None:
    for answer_format, texts in OF_ONE_FORMAT.items():
        assert {text: read_belief(text, decimal=answer_format == "decimal") for text in texts} == dict.fromkeys(texts)


def test_traps_are_not_read_and_honest_spellings_are() -> None:
    """Written without sight of the reader: 373 texts of 57 kinds that hold no belief, and 137 that hold one."""
    rows = [json.loads(line) for line in TRAPS.read_text(encoding="utf-8").splitlines()]
    read = [(row["belief"], read_belief(row["text"], row["answer_format"] == "decimal")) for row in rows]
    traps = [value for belief, value in read if belief is None]
    assert len(traps) > 300
    assert sum(value is not None for value in traps) / len(traps) < 0.02
    readable = [value == pytest.approx(belief) for belief, value in read if belief is not None]
    assert sum(readable) / len(readable) >= 0.98


CUT_OFF = {
    "In this case, the probability of the line being damp during shift 1 is 44%.\n\nTo find the probability of": None,
    "The answer is: 0.99999999": None,
    "0.9\n\nTwo reports agree, and": 0.9,
    "0.9. Two reports": 0.9,
    "Two reports agree.\n\n**Final probability:** 0.9\n\nThat": 0.9,
    r"\finalBeliefProb{0.73} This": 0.73,
    r"\finalBeliefProb{0.7": None,
    "Probability: 7": None,
}


@pytest.mark.parametrize("text", CUT_OFF)
def test_of_a_cut_text_the_first_or_final_number_counts(text: str) -> None:
    assert read_belief(text, decimal=True, cut_off=True) == CUT_OFF[text]


def test_every_percentage_and_every_hundredth_round_trips() -> None:
    for percent in range(101):
        for text in (f"{percent}", f"{percent}%", f"Two agree.\n\n{percent}%"):
            assert read_belief(text) == pytest.approx(percent / 100, abs=1e-15)
        assert read_belief(rf"So. \finalBeliefProb{{{percent / 100:.2f}}}", decimal=True) == pytest.approx(
            percent / 100
        )


# fmt: off
PIECES = [
    *string.printable, "\\finalBeliefProb", "{", "}", "{0.7}", "%", " percent", "0.", "73", "100", "1e309", "-", "–",
    "～", "٣", "½", "\u202e", "\ud800", "\x00", "\n", "\r\n", "Probability:", "is", "about", "~", "**", "$", "𝟟", "p",
    "nan",
]
# fmt: on


# fmt: off
RECORDS = [
    "[", "]", "{", "}", ":", ",", "```json\n", '"probability"', '"answer": ', '"": ', "null", "true", "1e999",
    "NaN", "0.7",
    "<think>", "</think>", "<|message|>", "Actually, ", "P(yes) = ", "No.", "\n",
    "73%", '[{"probability": 0.73}]',
]
# fmt: on


def test_twenty_thousand_broken_records_never_raise() -> None:
    rng = random.Random(1)
    for _ in range(20_000):
        text = "".join(rng.choices(RECORDS, k=rng.randint(0, 12)))
        belief = read_belief(text, decimal=rng.random() < 0.5)
        assert belief is None or 0 <= belief <= 1, text


def test_ten_thousand_hostile_strings() -> None:
    rng = random.Random(0)
    read = 0
    for _ in range(10_000):
        text = "".join(rng.choices(PIECES, k=rng.randint(0, 30)))
        belief = read_belief(text)
        assert belief is None or 0 <= belief <= 1, text
        read += belief is not None
    assert 0 < read < 1000, "some are readable, most are not"


@pytest.mark.parametrize(
    "text",
    [
        "9" * 200_000,
        "\\finalBeliefProb{" * 20_000,
        "\\finalBeliefProb{" + "9" * 200_000 + "x}",
        "finalBeliefProb" + " " * 200_000,
        "the " * 60_000 + "answer is",
        "is " * 60_000,
        "73%\n" * 40_000,
        "0." + "0" * 200_000 + "%",
        "[" * 200_000,
        "[" + "1," * 100_000,
        "[1]" * 60_000,
    ],
    ids=lambda text: text[:20].strip(),
)
def test_a_long_text_of_malice_is_read_at_once(text: str) -> None:
    began = time.process_time()
    read_belief(text)
    read_beliefs(text, 3)
    assert time.process_time() - began < 10, "not a claim of speed: quadratic matching would take minutes"


LISTS = {
    "[40, 55, 70]": [0.4, 0.55, 0.7],
    "[40,55,70]": [0.4, 0.55, 0.7],
    " [\n  40,\n  55,\n  70\n]\n": [0.4, 0.55, 0.7],
    "```json\n[40, 55, 70]\n```": [0.4, 0.55, 0.7],
    "Here it is: **[40, 55, 70]**.": [0.4, 0.55, 0.7],
    "[40, 55, 70]\n\nAgain: [40,55,70]": [0.4, 0.55, 0.7],
    "There were 3 steps in 2024, so 80%.\n[0, 1, 100]": [0.0, 0.01, 1.0],
}

NO_LISTS = [
    "", "40, 55, 70", "(40, 55, 70)", "[40, 55, 70", "40, 55, 70]",
    # another number of them
    "[]", "[40]", "[40, 55]", "[40, 55, 70, 80]",
    # two that differ
    "[40, 55, 70]\n[40, 55, 71]", "[40, 55, 70] as in [1]", "[40, 55, 70] and, in order, [70, 55, 40]",
    # one that is no whole percent
    "[40, 55, 101]", "[40, 55, 101, 70]", "[40, 55, 1000]", "[40, 55, 999999999999999999999999999999]",
    "[-40, 55, 70]", "[40, 55, 70.5]", "[40, 70.5]", "[0.4, 0.55, 0.7]", "[40, 55, 7e1]", "[40%, 55%, 70%]",
    '["40", "55", "70"]', "[40, 55, null]", "[40, about 55, 70]", "[40, 55, ٧٠]",
]  # fmt: skip


@pytest.mark.parametrize("text", LISTS)
def test_a_list_of_beliefs_is_read(text: str) -> None:
    assert read_beliefs(text, 3) == LISTS[text]


@pytest.mark.parametrize("text", NO_LISTS)
def test_other_texts_hold_no_list_of_beliefs(text: str) -> None:
    assert read_beliefs(text, 3) is None


@pytest.mark.parametrize(
    "text", ["**", "`", "#", "|", '""', "$$", "()", "*\n*", "**\n_", "\\boxed{", "**Answer:**", ">\n#"]
)
@pytest.mark.parametrize("decimal", [True, False])
@pytest.mark.parametrize("cut_off", [True, False])
def test_marks_without_words_are_no_belief(text: str, decimal: bool, cut_off: bool) -> None:
    assert read_belief(text, decimal, cut_off) is None
    assert read_belief(f"{text}\n", decimal, cut_off) is None
