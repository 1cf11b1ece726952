"""Each wording of `cruxes` against sentences written by hand, so that fields in each other's places are noticed."""

import re

import pytest

from tests.datasets.reading_back import cruxes
from truthgym.datasets.cruxes import WORDINGS, Wording, paths

NUMBERS = {
    "light": 41, "middle": 33, "heavy": 26, "unfit": 9, "fit": 82, "study": 61, "story": 22, "granted": 71,
    "wavering": 14, "kept": 77, "doubted": 12, "low": 27, "mid": 56, "high": 17, "shown": 48,
}  # fmt: skip
SENTENCES = {
    "forum": (
        "1 point with a chance of 41 in 100, 3 points with a chance of 33 in 100, 6 points with a chance of 26 in 100",
        "a reason of 1 point a trifle, one of 3 points a real concern and one of 6 points the heart of it",
        "the right one with a chance of 82 in 100, and each of the two wrong ones with a chance of 9 in 100",
        "a reason has a name in brackets with a chance of 48 in 100. Then readers answer in turn, 3 in all",
        "a study removes it with a chance of 61 in 100 and a story with a chance of 22 in 100",
        "About a reason that has been removed, Marris says 'granted' with a chance of 71 in 100, 'perhaps' with a "
        "chance of 14 in 100, and otherwise 'no'",
        "About a reason that stands, Marris says 'no' with a chance of 77 in 100, 'perhaps' with a chance of 12 in "
        "100, and otherwise 'granted'",
        "names the reason's weight, by a new draw",
        "2 points with a chance of 27 in 100, 5 points with a chance of 56 in 100 and 8 points with a chance of 17 in",
    ),
    "letters": (
        "A reason counts 1 in 41 of 100 cases, 3 in 33 of 100 and 6 in 26 of 100",
        "A reason that counts 1 is 'slight' in Marris's letters, one that counts 3 'solid', one that counts 6 "
        "'decisive', but only in 82 of 100 cases: in 9 of 100 the first of the other two words is used",
        "a chance of 48 in 100 of being followed by a word. Letters come from colleagues, 3 in all",
        "A table refutes a reason in Marris's eyes in 61 of 100 cases and an anecdote in 22 of 100",
        "If the reason is refuted by then, the reply is 'I yield' in 71 of 100 cases, 'it may be' in 14 of 100",
        "If it is not refuted, the reply is 'I hold to it' in 77 of 100 cases, 'it may be' in 12 of 100",
        "with a word that is drawn anew in the same way",
        "2 in 27 of 100 cases, 5 in 56, 8 in 17.",
    ),
    "council": (
        "a reason is worth 1, 3 or 6 votes. The probabilities are 41%, 33% and 26%",
        "a reason worth 1 as one to be mentioned, of one worth 3 as one to be weighed, of one worth 6 as one to be "
        "obeyed",
        "With probability 82% this phrase is used, with probability 9% the first of the other two",
        "a probability of 48% of being given with a phrase. In the session members rise one after the other, 3 in all",
        "a report destroys it with probability 61% and a memory with probability 22%",
        "destroyed by then: 'agreed' with probability 71%, 'I wonder' with probability 14%, else 'not so'",
        "an intact one: 'not so' with probability 77%, 'I wonder' with probability 12%, else 'agreed'",
        "a phrase for the reason, drawn anew",
        "2 with probability 27%, 5 with probability 56% and 8 with probability 17%",
    ),
    "family": (
        "41 of 100 lots give 1, 33 give 3 and 26 give 6",
        "calm if it pulls with 1, firm with 3, hot with 6",
        "82 of 100 lots give the one that belongs to it, 9 of 100 give the first of the others",
        "a chance of 48 in 100 of being given with the tone",
        "the others made remarks, 3 in all",
        "a calculation took its pull away 61 times in 100 and a wish 22 times in 100",
        "If the reason no longer pulled, Marris nodded 71 times in 100, shrugged 14 times in 100",
        "If it still pulled, Marris gave a shake of the head 77 times in 100, shrugged 12 times in 100",
        "A new lot decided the tone of each reply",
        "2 or more in 27 of 100 lots, 5 or more in 56 of 100 and 8 or more in 17 of 100",
    ),
}
POSTS = {
    "forum": "the smell of diesel (the heart of it); the queue at the ferry; the cost of repairs (a trifle)",
    "letters": "the metre, decisive; the ink; the spelling, slight",
    "council": "the storks, a reason to be obeyed; the summer fair; the price offered, a reason to be mentioned",
    "family": "the rent (in a hot tone); the damp flat; the long winters (in a calm tone)",
}
TURNS = {
    "forum": (
        "Discussion 7, post 1. A reader: on the queue at the ferry, I can tell you of a place where it went otherwise.",
        "Discussion 7, post 2. The author: the queue at the ferry, a real concern to me. No.",
        "Discussion 7, post 3. A reader: on the smell of diesel, there is a study that finds otherwise.",
        "Discussion 7, post 4. The author: the smell of diesel, a trifle to me. Granted.",
        "Discussion 7, post 5. A reader: on the cost of repairs, there is a study that finds otherwise.",
        "Discussion 7, post 6. The author: the cost of repairs, the heart of it to me. Perhaps.",
    ),
    "letters": (
        "Correspondence 7, letter 1. Here is an anecdote against your argument from the ink.",
        "Correspondence 7, letter 2. On the ink, a solid reason: I hold to it.",
        "Correspondence 7, letter 3. Here is a table of figures against your argument from the metre.",
        "Correspondence 7, letter 4. On the metre, a slight reason: I yield.",
        "Correspondence 7, letter 5. Here is a table of figures against your argument from the spelling.",
        "Correspondence 7, letter 6. On the spelling, a decisive reason: it may be.",
    ),
    "council": (
        "Session 7, speech 1. A member tells of a memory against the summer fair as a reason.",
        "Session 7, speech 2. The councillor: not so about the summer fair, a reason to be weighed.",
        "Session 7, speech 3. A member cites a report against the storks as a reason.",
        "Session 7, speech 4. The councillor: agreed about the storks, a reason to be mentioned.",
        "Session 7, speech 5. A member cites a report against the price offered as a reason.",
        "Session 7, speech 6. The councillor: I wonder about the price offered, a reason to be obeyed.",
    ),
    "family": (
        "Evening 7, 1: somebody comes with a wish about the damp flat.",
        "Evening 7, 2: a shake of the head about the damp flat, and the tone is firm.",
        "Evening 7, 3: somebody comes with a calculation about the rent.",
        "Evening 7, 4: a nod about the rent, and the tone is calm.",
        "Evening 7, 5: somebody comes with a calculation about the long winters.",
        "Evening 7, 6: a shrug about the long winters, and the tone is hot.",
    ),
}
ATTACKS = [(1, 1), (0, 0), (2, 0)]
"""Of the second reason with a story, of the first with a study, of the third with a study."""
REPLIES = [(2, 1), (0, 0), (1, 2)]
"""Kept as a middling reason, granted as a light one, wavering as a heavy one."""


@pytest.mark.parametrize("wording", WORDINGS, ids=lambda one: str(one.name))
def test_sentences_written_by_hand_are_read_back(wording: Wording) -> None:
    said = {"case": 7, "author": "Marris", "place": "Pelket", "count": 3, "rounds": 3, "post": POSTS[wording.name]}
    question = wording.asked.format(**said, **NUMBERS)
    for sentence in SENTENCES[wording.name]:
        assert sentence in question
    stated = re.findall(r"\d+", " ".join(SENTENCES[wording.name]))
    assert {str(number) for number in NUMBERS.values()} <= set(stated), "a number without a sentence"
    text = cruxes([question, *TURNS[wording.name]])
    assert text
    assert text.exact == pytest.approx(paths(NUMBERS, [2, None, 0], ATTACKS, REPLIES, rounds=3))
