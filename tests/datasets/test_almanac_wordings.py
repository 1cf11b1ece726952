"""Each wording of `almanac` against sentences written by hand, so that fields in each other's places are noticed."""

import re

import pytest

from tests.datasets.reading_back import almanac
from truthgym.datasets.almanac import WORDINGS, Wording
from truthgym.datasets.worlds.almanac import KINDS, Reading, paths

NUMBERS = {
    "polls": {"up": 31, "down": 17, "anew": 2, "lean": 4, "leaning": 33, "one": 14, "two": 8, "threshold": 49},
    "reservoir": {"swap": 9, "one": 41, "two": 27, "anew": 3, "misread": 16, "threshold": 11},
    "league": {"change": 6, "threshold": 3},
    "outbreak": {"swap": 12, "one": 38, "two": 26, "anew": 1, "prompt": 57, "threshold": 14},
    "price": {"up": 29, "down": 18, "anew": 2, "rumour": 24, "size": 6, "fade": 45, "threshold": 37},
}
SENTENCES = {
    "bridge": (
        "without lean or error. It must be 49 or more",
        "Will 49 percent or more vote for the bridge at Pelket on 2025-03-24?",
        "it rises by one point with a chance of 31 in 100, falls by one point with a chance of 17 in 100",
        "With a chance of 2 in 100 a scandal breaks instead",
        "4 points too high with a chance of 33 in 100, 4 points too low with the same chance",
        "one point up or one point down with a chance of 14 in 100 each, two points up or two points down with a "
        "chance of 8 in 100 each",
    ),
    "mayor": (
        "49 percent is enough",
        "Will the sitting mayor get at least 49 percent?",
        "it gains a point in 31 of 100 cases and loses a point in 17 of 100",
        "In 2 of 100 weeks none of this applies, because an affair breaks",
        "4 points in 33 of 100 cases, minus 4 points in 33 of 100, otherwise nothing",
        "plus or minus one point (each in 14 of 100 cases) or plus or minus two points (each in 8 of 100)",
    ),
    "dam": (
        "stand at mark 11 or higher on 2025-03-24?",
        "the weather first turns to the other kind with a chance of 9 in 100",
        "by one mark with a chance of 41 in 100, by two with a chance of 27 in 100, otherwise not at all",
        "With a chance of 3 in 100 the gates jam instead",
        "The note is one mark too high with a chance of 16 in 100 and one mark too low with the same chance",
    ),
    "lake": (
        "needs the water at line 11 or above. Can it land on 2025-03-24?",
        "the springs change from one to the other in 9 of 100 cases",
        "one line in 41 of 100 weeks, two in 27 of 100, none in the rest",
        "In 3 of 100 weeks a landslide overrides this",
        "In 16 of 100 readings he takes it for the line above, in 16 of 100 for the line below",
    ),
    "team": (
        "at least 3 must be won",
        "win at least 3 of its five matches in the tournament of 2025-03-24?",
        "Before any week after week 1, with or without matches, the team changes its players with a chance of 6 in 100",
    ),
    "chess": (
        "must win 3 or more of the five games",
        "Will the champion win 3 or more of them?",
        "in 6 of 100 weeks, with or without games, the champion is replaced",
    ),
    "fever": (
        "There must be 14 or more",
        "Will 14 people or more in Pelket fall ill with the fever in the week of 2025-03-24?",
        "it first turns from one to the other with a chance of 12 in 100",
        "by one with a chance of 38 in 100, by two with a chance of 26 in 100, otherwise not at all",
        "With a chance of 1 in 100 travellers arrive instead",
        "reported in the same week with a chance of 57 in 100, and otherwise in the week after",
    ),
    "rust": (
        "Will it reach at least 14 new ones in the week of 2025-03-24?",
        "At the start of each later week the state changes in 12 of 100 cases",
        "by one in 38 of 100 weeks and by two in 26 of 100; in the rest it stays as it was",
        "In 1 of 100 weeks a storm carries the rust about instead",
        "writes at once in 57 of 100 cases",
    ),
    "saffron": (
        "with the effect of a rumour if there is one, must be 37 or more",
        "Will a pound of saffron cost 37 crowns or more in Pelket on 2025-03-24?",
        "it rises by one with a chance of 29 in 100, falls by one with a chance of 18 in 100",
        "With a chance of 2 in 100 an unusual harvest comes instead",
        "a rumour starts with a chance of 24 in 100: it adds 6 crowns or takes 6 off",
        "until it ends, which it does in each following week with a chance of 45 in 100",
    ),
    "mine": (
        "37 itself is enough",
        "Will a share of the Pelket mine trade at 37 or more on 2025-03-24?",
        "plus one in 29 of 100 cases, minus one in 18 of 100, no change in the rest",
        "But in 2 of 100 weeks a vein is found or lost instead",
        "it sets in with a chance of 24 in 100; a coin decides whether the price is then 6 above the lasting value or "
        "6 below it",
        "After each week of excitement there is a chance of 45 in 100 that it is over",
    ),
}
NEWS: dict[str, tuple[str, str, list[Reading]]] = {
    "bridge": (
        "Vote 7, week 1 (2025-03-03): Limquo finds 47 percent for the bridge.",
        "Vote 7, week 2 (2025-03-10): Marris finds 52 percent for the bridge.",
        [(0, 47), (1, 52)],
    ),
    "mayor": (
        "Election 7, week 1, 2025-03-03. Poll by Marris: the mayor stands at 47 percent.",
        "Election 7, week 2, 2025-03-10. Poll by Limquo: the mayor stands at 52 percent.",
        [(1, 47), (0, 52)],
    ),
    "dam": (
        "Dam 7, week 1 (2025-03-03): the warden notes mark 9.",
        "Dam 7, week 2 (2025-03-10): the warden notes mark 10.",
        [(9,), (10,)],
    ),
    "lake": (
        "Lake 7, 2025-03-03, week 1: the boy says line 9.",
        "Lake 7, 2025-03-10, week 2: the boy says line 10.",
        [(9,), (10,)],
    ),
    "team": (
        "Season 7, week 1 (2025-03-03): the team wins 2 of its two matches.",
        "Season 7, week 2 (2025-03-10): the team wins 1 of its two matches.",
        [(2,), (1,)],
    ),
    "chess": (
        "Championship 7, 2025-03-03, week 1: games won, 2 of two.",
        "Championship 7, 2025-03-10, week 2: games won, 1 of two.",
        [(2,), (1,)],
    ),
    "fever": (
        "Outbreak 7, week 1 (2025-03-03): reported so far of those who fell ill this week, 8.",
        "Outbreak 7, week 2 (2025-03-10): reported so far of those who fell ill this week, 6; reported late of those "
        "who fell ill the week before, 5.",
        [(8, 0), (6, 5)],
    ),
    "rust": (
        "Plague 7, 2025-03-03, week 1: letters about this week's attacks, 8.",
        "Plague 7, 2025-03-10, week 2: letters about this week's attacks, 6; about last week's, 5.",
        [(8, 0), (6, 5)],
    ),
    "saffron": (
        "Market 7, week 1 (2025-03-03): a pound costs 38 crowns.",
        "Market 7, week 2 (2025-03-10): a pound costs 44 crowns.",
        [(38,), (44,)],
    ),
    "mine": (
        "Mine 7, 2025-03-03, week 1: the share is quoted at 38.",
        "Mine 7, 2025-03-10, week 2: the share is quoted at 44.",
        [(38,), (44,)],
    ),
}


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda one: str(one.name))
def test_sentences_written_by_hand_are_read_back(wording: Wording) -> None:
    numbers = NUMBERS[wording.kind]
    first, second, readings = NEWS[wording.name]
    said = {"case": 7, "place": "Pelket", "first": "Limquo", "second": "Marris", "by": "2025-03-24"}
    question = wording.template.format(**said, **numbers, opened="2025-03-03", past=first)
    for sentence in SENTENCES[wording.name]:
        assert sentence in question
    stated = re.findall(r"\d+", " ".join(SENTENCES[wording.name]).replace("2025-03-24", ""))
    assert {str(number) for number in numbers.values()} <= set(stated), "a number without a sentence"
    text = almanac([question, second])
    assert text
    exact, _ = paths(KINDS[wording.kind], numbers, readings, weeks=4)
    assert text.exact == pytest.approx(exact[1:])
