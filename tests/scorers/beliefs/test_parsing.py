import random
import string
import time

import pytest

from truthgym.scorers.beliefs.parsing import read_belief, read_beliefs

STATED = {
    "73": 0.73, "73%": 0.73, "73 %": 0.73, "73\u00a0%": 0.73, "0.73%": 0.0073, "73.5%": 0.735, "73 percent": 0.73,
    "0": 0.0, "100": 1.0, "1": 0.01, " 73 \n": 0.73, "\ufeff73": 0.73, "'73'": 0.73, "**73%**": 0.73, "73.": 0.73,
    r"$73\%$": 0.73, r"\boxed{73}": 0.73, "Probability: 73%": 0.73, "**Probability:** 73%": 0.73,
    "**Final answer:** **73%**": 0.73, "My credence is 73.": 0.73, "Probability of yes: 73": 0.73,
    "I'd say about 73%.": 0.73, "I’d say 73%": 0.73, "The clouds are low.\n\nProbability: 73": 0.73,
    "Prices rose 3% that year.\n73%": 0.73, "There it is\n\n73%": 0.73, "70%\n70%": 0.7,
    r"\finalBeliefProb{0.73}": 0.73, r"\finalBeliefProb{ .73 }": 0.73, r"\finalBeliefProb\{0.73\}": 0.73,
    r"\finalBeliefProb{1}": 1.0, r"\finalBeliefProb{0}": 0.0, r"I think 40%, no: \finalBeliefProb{0.73}.": 0.73,
    "\\finalBeliefProb{0.73}\n\n1. A reason": 0.73,
    r"$\finalBeliefProb{0.73}$ and again \finalBeliefProb{0.73}": 0.73,
    r"The form is \finalBeliefProb{p}. \finalBeliefProb{0.73}": 0.73,
    r"I end with \finalBeliefProb{ p }: \finalBeliefProb{0.73}": 0.73,
    # the marker as models write it
    r"\finalBeliefProb{73%}": 0.73, r"\finalBeliefProb{73\%}": 0.73, r"\finalBeliefProb{{0.7}}": 0.7,
    r"\finalBeliefProb{\text{0.73}}": 0.73, r"\finalBeliefProb{\mathbf{.73}}": 0.73,
    r"\finalbeliefprob{0,73}": 0.73, r"\finalBeliefProb[0.73]": 0.73, r"finalBeliefProb: 0.73": 0.73,
    r"\finalBeliefProb 73%": 0.73, r"$$\boxed{\finalBeliefProb{0.73}}$$": 0.73,
    r"An example: \finalBeliefProb{0.5}. Mine: \finalBeliefProb{0.73}": 0.73,
    r"\finalBeliefProb{0.6} Wait, I misread the date. \finalBeliefProb{0.73}": 0.73,
    # other words
    "73,5%": 0.735, "７３%": 0.73, "73 – two of the three reports agree.": 0.73,
    "73%\n\nThe market stood at 60%, and 20% of such bills pass.": 0.73, "**Final probability:**\n\n73%": 0.73,
    "### Probability\n73": 0.73, "| Probability | 73% |": 0.73, "Two reports agree.\n\n**73**": 0.73,
    "Answer: 3": 0.03, "Answer: 73": 0.73, "73/100": 0.73, "73 out of 100.": 0.73, "A 73% chance.": 0.73,
    "There is a 73% chance that the dam holds through 2031.": 0.73,
    "The probability that the dam holds is about 73%.": 0.73, "P(yes) = 0.73": 0.73, "Therefore, p = 0.73": 0.73,
    "P(yes) = 0.73, P(no) = 0.27": 0.73, "My best estimate is 73% (0.73).": 0.73,
    "Weighing both reports, I'd put it at 73%.": 0.73, "I am 73% sure that the statement is true.": 0.73,
    "70%\nActually, 80% on reflection.": 0.8, "I'd say 60%. On reflection, 73%.": 0.73,
    "Probability: 60%\nFinal probability: 73%": 0.73, "```\n73%\n```": 0.73, r"\( 73\% \)": 0.73,
    '{"probability": 0.73}': 0.73, '[{"probability": 0.73}]': 0.73, "<think>60%? 65%?</think>73%": 0.73,
    "Wahrscheinlichkeit: 73 %": 0.73, "Probabilité : 73 %": 0.73, "概率：73%": 0.73,
}  # fmt: skip

DECIMALS = ["0.73", ".73", "0,73", "`0.73`", r"\boxed{0.73}", "The answer is 0.73.", "Honestly, I'd say 0.73."]

SILENT = [
    "",
    # a bare decimal could be either
    "0.73", ".73", "73.5", "1.0",
    # ranges, bounds and denials, on one line or two
    "70-80%", "70 to 80", "between 70% and 80%", "Somewhere between 60% and\n80%.",
    "The confidence interval is 60% -\n80%", ">73%", "at least 73%", "at least\n73%", "It is not\n73%",
    # more than one answer
    "70% or 80%", "70%\n80%", "Probability: 70\nProbability: 80",
    # out of range
    "101", "101%", "100.5%", "-5", "-5%",
    # another notation
    "+73%", "1e1", "007", "1,000", "1/2", "7**3", "3 out of 4", "٧٣", "nan", "inf%",
    # digits that are not an answer
    "$73", "73 degrees", "In 2024, 3 people came.", "Inflation was 3%, so no.", "Rate cut of\n0.5%", "Step 3",
    "Reasons.\n73", "The answer is 42 apples.", "The forecast is 25.", "Probability of no: 73%",
    "The probability is 1.",
    # the marker, otherwise filled
    r"\finalBeliefProb{}", r"\finalBeliefProb{p}", r"\finalBeliefProb{73}", r"\finalBeliefProb{01}",
    r"\finalBeliefProb{1.01}", r"\finalBeliefProb{-0.1}", r"\finalBeliefProb{1e-2}",
    r"\finalBeliefProb{0.7 or 0.8}", r"\finalBeliefProb{0.7", r"\finalBeliefProb{1}%", r"\finalBeliefProb{0.3}5",
    r"\finalBeliefProb{0.6} to 0.8", r"\finalBeliefProb{0.7} \finalBeliefProb{0.8}",
    r"\finalBeliefProb{0.7} \finalBeliefProb{none}", r"An example: \finalBeliefProb{0.73}",
    r"I will end with a line like \finalBeliefProb{0.73}.", "> 73%", "False. I'm 90% sure.",
    "I'm 73% sure that this is hard to predict.", r"The market's own \finalBeliefProb{0.73}",
    r"\finalBeliefProb{0.3} My final answer is 70%.", r"\finalBeliefProb{0.3} Please disregard that.",
    # a number that is not the writer's own final probability
    "1.", "**No** Probability: 25%", "Answer: No\nProbability: 90%", "My own view is mixed.\nThe market says 73%.",
    "I'd say that the market is at 73%.", "P(rain | clouds) = 73%", "P(no) = 27%", "If it rains, I'd say 73%.",
    "I would have said 73%.", "73% of the experts agree.", "There is a 73% chance that this is wrong.",
    "The probability of seeing this if it were false is 73%.", "I'm 73% sure.",
    "Probability: 60%\nProbability: 73%", "Final probability: 60%.\nFinal probability: 73%.",
    "73%. Actually no, I can't say.", "So my final probability is 0.", '{"number": 73}', '{"probability": [0.73]}',
    '{"probability": 0.73, "answer": 0.4}', "<think>73%",
]  # fmt: skip


@pytest.mark.parametrize("text", STATED)
def test_a_stated_belief_is_read(text: str) -> None:
    assert read_belief(text) == pytest.approx(STATED[text], abs=1e-15)


@pytest.mark.parametrize("text", DECIMALS)
def test_a_bare_decimal_is_read_where_one_was_asked_for(text: str) -> None:
    assert read_belief(text) is None
    assert read_belief(text, decimal=True) == pytest.approx(0.73)


@pytest.mark.parametrize("text", ["1", "The answer is: 1", "Answer: 1", "**1**"])
def test_a_bare_one_is_in_doubt(text: str) -> None:
    """SmolLM2 wrote the second, asked for a decimal and then again for a percent: certainty, read as one percent."""
    assert read_belief(text, decimal=True) is None
    percent = None if "nswer" in text else 0.01  # a bare one is one of the whole percents that were asked for
    assert read_belief(text) == percent
    assert read_belief(text.replace("1", "1%"), decimal=True) == 0.01


NOT_THE_BELIEF = [
    # by SmolLM2-135M
    "The probability of its complementary is 100% as well: both events are equally likely to occur.\nHowever, that "
    "event involves the older lathe. As the probability of that single scenario is 100%.",
    "The probability of a dry line being damp during a shift is 1 - 0.001, which is 100%.",
    "In this case, the probability of the line being damp during shift 1000 is the number of trials multiplied by the "
    "probability of each possible outcome, which is 0.68.\n\nThe probability is",
    "To determine it, we calculate the probability of the given probability.\n\n"
    "The probability of the line being damp is 0.25, which is 25%.\nThe probability of the line being both damp and "
    "dry during shift 1000 is 0.75 * 100 = 75%.",
    "Now, let's calculate the probability of the event occurring in 100 steps:\n\nProbability = (100",
    "0.67\n\nThe answer is: 1.67\n\nThe answer is not an answer to the question you asked.",
]
IN_OTHER_WORDS = {
    # by SmolLM2-135M
    "The probability of Sack 1002 being the northern grower's is 1 in 100, which is 1%.": 0.01,
    "Therefore, the probability of the line being damp during shift 1001 is 44 percent, as explained earlier.": 0.44,
    "The answer is 0.15, which is a decimal from 0 to 1.": 0.15,
}
CUT_OFF = {
    # by SmolLM2-135M: what the question gives, before the answer was reached
    "To solve this problem, we need to find the probability of the event.\n\n"
    "In this case, the probability of the line being damp during shift 1001 is 44%.\n\nTo find the probability of the "
    "event, we need to find the probability of both events occurring together. This is a combination of probability.\n"
    "\nThe probability of the line": None,
    "The answer is: 0.99999999": None,
    "73%\n\nTwo reports agree, and": 0.73,
    "73%. Two reports": 0.73,
    "I'd say 73%. Two reports": 0.73,
    "Two reports agree.\n\n**Final probability:** 73%\n\nThat": 0.73,
    r"\finalBeliefProb{0.73} This": 0.73,
    r"\finalBeliefProb{0.7": None,
    "Probability: 7": None,
}


@pytest.mark.parametrize("text", NOT_THE_BELIEF)
def test_a_probability_of_something_else_is_not_the_belief(text: str) -> None:
    assert read_belief(text) is None
    assert read_belief(text, decimal=True) is None


@pytest.mark.parametrize("text", IN_OTHER_WORDS)
def test_a_belief_that_is_stated_twice_or_explained_is_read(text: str) -> None:
    assert read_belief(text, decimal=True) == IN_OTHER_WORDS[text]


@pytest.mark.parametrize("text", CUT_OFF)
def test_of_a_cut_text_the_first_or_final_number_counts(text: str) -> None:
    assert read_belief(text, decimal=True, cut_off=True) == CUT_OFF[text]


@pytest.mark.parametrize("text", SILENT)
def test_a_text_without_one_belief_is_silent(text: str) -> None:
    assert read_belief(text) is None


def test_every_percentage_and_every_hundredth_round_trips() -> None:
    for percent in range(101):
        for text in (f"{percent}", f"{percent}%", rf"So. \finalBeliefProb{{{percent / 100:.2f}}}"):
            assert read_belief(text) == pytest.approx(percent / 100, abs=1e-15)


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
        # whatever stands around it, a marker that is the only one decides
        if "finalBelief" not in text:
            assert read_belief(text + "\\finalBeliefProb{0.25}\n" + text) == 0.25, text
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
