"""Do the wordings say what their numbers mean? Sentences written by hand, so that swapped fields are noticed."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.datasets.reading_back import DEVICE, WORLDS, expression
from truthgym.datasets import almanac, cruxes
from truthgym.datasets.almanac import KINDS, Reading, paths
from truthgym.datasets.disclosure import RULES, DisclosureQuestion, disclosure
from truthgym.datasets.interventions import SURFACES, InterventionsQuestion, Query, interventions
from truthgym.datasets.testimony import TestimonyQuestion, testimony

TESTIMONY = {
    "ferry": (
        "such storms it sails BASE times in 100",
        "that it sailed, HIT times in 100 if it did and ALARM times in 100",
        "prints the opposite of what the person says GARBLE times in 100",
        "each newspaper names the person with 35 ch",
        "each remaining newspaper with 65 chances in 100",
        " REPORTS newspapers each",
    ),
    "council": (
        "It passes BASE of 100 such motions",
        "a chance of HIT% if it did and of ALARM% if it did not",
        "with a chance of GARBLE% turns the message round",
        "Each letter, with a chance of 35%, says who it was",
        "with a chance of 65%, remembers it",
        " REPORTS letters tell",
    ),
    "compound": (
        "its series, BASE in 100 do",
        "in HIT of 100 cases if it does and in ALARM of 100 cases if it does not",
        "the wrong way round GARBLE times in 100",
        "A chance of 35 in 100 decides for each review whether it gives",
        "finds each with a chance of 65 in 100",
        " REPORTS reviews cite",
    ),
    "comet": (
        "Of 100 comets of its kind BASE are",
        "that it was with probability HIT%; if not, with probability ALARM%",
        "the contrary of the note with probability GARBLE%",
        "With probability 35% an almanac names the watcher",
        "left out is named with probability 65%",
        " REPORTS almanacs copy",
    ),
}
DISCLOSURE = {
    "seller": (
        "Of such batches BASE in 100 are",
        "sound batch passes a drop test HIT times in 100, a kettle of a faulty batch ALARM times",
        "ALL in 100 have 9 kettles tested and show every",
        "FIRST in 100 have 9 tested and show the results of the first 4,",
        "BEST in 100 have 9 tested and pick 4 results, passes",
        "STOP in 100 have one kettle after another tested, stop as soon as the passes are 3 ahead of the failures, or "
        "else after 9,",
    ),
    "lawyer": (
        "BASE of 100 such tenants did",
        "who did, an expert says so with a chance of HIT%; about one who did not, with a chance of ALARM%",
        "ALL% ask 9 experts and read all",
        "FIRST% ask 9 experts and read the 4 opinions that came first",
        "BEST% ask 9 experts, choose 4 opinions, those against the tenant before",
        "STOP% ask one expert at a time, stop when opinions against the tenant outnumber the others by 3, and in any "
        "case after 9,",
    ),
    "laboratory": (
        "BASE percent of the additives in its family do",
        "does shows an effect HIT percent of the time, a trial of one that does not ALARM percent",
        "ALL percent make 9 trials and publish all in order",
        "FIRST percent make 9 trials and publish the 4 that were made first",
        "BEST percent make 9 trials and publish 4, first those with an effect",
        "STOP percent make trials until those with an effect are 3 more than those without, but never more than 9,",
    ),
    "grower": (
        "It spared BASE of 100 orchards",
        "spared orchard is green in HIT cases of 100, in any other in ALARM cases",
        "ALL cut 9 and hand over all as",
        "FIRST cut 9 and hand over the first 4 as",
        "BEST cut 9 and hand over 4, green ones as long",
        "STOP cut bud after bud until there are 3 more green ones than brown ones or 9 are cut",
    ),
}
MECHANISMS = {
    "machine": {
        "root": "Elfi is on in 37 of 100 runs.",
        "same": "Elfi is as Bano is, but the opposite in 4 of 100 runs.",
        "opposite": "Elfi is on when Bano is off and off when Bano is on, but the other way round in 4 of 100 runs.",
        "both": "Elfi is on when Bano and Ulba are both on and off when not, but the other way round in 4 of 100 runs.",
        "either": "Elfi is on when Bano or Ulba or both are on and off when not, but the other way round in 4 of 100 "
        "runs.",
        "set": "a hand sets Bano to on,",
        "see": "nobody touches a part, and Bano is known for certain to be on",
        "counterfactual": "Suppose that in that run Bano had been set to on by hand",
    },
    "canal": {
        "root": "Elfi stands open on 37 days of 100.",
        "same": "Elfi stands as Bano does; on 4 days of 100 it stands the other way.",
        "opposite": "Elfi stands open if Bano is shut, and shut if Bano is open; on 4 days of 100 it is the reverse.",
        "both": "Elfi stands open if both Bano and Ulba are open, else shut; on 4 days of 100 it is the reverse.",
        "either": "Elfi stands open if at least one of Bano and Ulba is open, else shut; on 4 days of 100 it is the "
        "reverse.",
        "set": "makes Bano stand open by hand",
        "see": "all gates are left alone, and it is certain that Bano stands open",
        "counterfactual": "Had the keeper made Bano stand open by hand on that day",
    },
    "beacons": {
        "root": "In 37 of 100 nights Elfi is lit.",
        "same": "Elfi copies Bano; in 4 of 100 nights it fails to, and does the contrary.",
        "opposite": "Elfi is lit if Bano is dark and dark if Bano is lit; in 4 of 100 nights it does the contrary.",
        "both": "Elfi is lit if Bano and Ulba are lit, both of them, or else dark; in 4 of 100 nights it does the "
        "contrary.",
        "either": "Elfi is lit if Bano is lit or Ulba is or both are, or else dark; in 4 of 100 nights it does the "
        "contrary.",
        "set": "keeps Bano lit,",
        "see": "no stranger comes near, and Bano is lit beyond doubt",
        "counterfactual": "but a stranger keeps Bano lit",
    },
    "genes": {
        "root": "Elfi is active in 37% of cells.",
        "same": "Elfi is active where Bano is and silent where Bano is, except in 4% of cells, where it is inverted.",
        "opposite": "Elfi is active where Bano is silent and silent where Bano is active, except in 4% of cells, where "
        "it is inverted.",
        "both": "Elfi is active where Bano and Ulba are both active and silent elsewhere, except in 4% of cells, where "
        "it is inverted.",
        "either": "Elfi is active where Bano or Ulba is active, or both, and silent elsewhere, except in 4% of cells, "
        "where it is inverted.",
        "set": "makes Bano active,",
        "see": "no drug is given, and Bano is known for certain to be active",
        "counterfactual": "If a drug had made Bano active in that cell",
    },
}
ALMANAC_NUMBERS = {
    "polls": {"up": 31, "down": 17, "anew": 2, "lean": 4, "leaning": 33, "one": 14, "two": 8, "threshold": 49},
    "reservoir": {"swap": 9, "one": 41, "two": 27, "anew": 3, "misread": 16, "threshold": 11},
    "league": {"change": 6, "threshold": 3},
    "outbreak": {"swap": 12, "one": 38, "two": 26, "anew": 1, "prompt": 57, "threshold": 14},
    "price": {"up": 29, "down": 18, "anew": 2, "rumour": 24, "size": 6, "fade": 45, "threshold": 37},
}
ALMANAC_SENTENCES = {
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
ALMANAC_NEWS: dict[str, tuple[str, str, list[Reading]]] = {
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
CRUXES_NUMBERS = {
    "light": 41, "middle": 33, "heavy": 26, "unfit": 9, "fit": 82, "study": 61, "story": 22, "granted": 71,
    "wavering": 14, "kept": 77, "doubted": 12, "low": 27, "mid": 56, "high": 17, "shown": 48,
}  # fmt: skip
CRUXES_SENTENCES = {
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
CRUXES_POSTS = {
    "forum": "the smell of diesel (the heart of it); the queue at the ferry; the cost of repairs (a trifle)",
    "letters": "the metre, decisive; the ink; the spelling, slight",
    "council": "the storks, a reason to be obeyed; the summer fair; the price offered, a reason to be mentioned",
    "family": "the rent (in a hot tone); the damp flat; the long winters (in a calm tone)",
}
CRUXES_TURNS = {
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
CRUXES_ATTACKS = [(1, 1), (0, 0), (2, 0)]
"""Of the second reason with a story, of the first with a study, of the third with a study."""
CRUXES_REPLIES = [(2, 1), (0, 0), (1, 2)]
"""Kept as a middling reason, granted as a light one, wavering as a heavy one."""


def filled(sentence: str, numbers: dict[str, int]) -> str:
    return re.sub("[A-Z]{3,}", lambda name: str(numbers[name[0]]), sentence)


def numbers_of(question: TestimonyQuestion | DisclosureQuestion) -> dict[str, int]:
    """The numbers of a question by the names that they have in the sentences above."""
    numbers = {"BASE": round(100 * (question.base_rate or 0)), "HIT": question.hit, "ALARM": question.false_alarm}
    if isinstance(question, TestimonyQuestion):
        return numbers | {"GARBLE": question.garble, "REPORTS": len(question.content)}
    return numbers | {rule.upper(): weight for rule, weight in zip(RULES, question.weights, strict=True)}


@pytest.mark.parametrize(
    ("items", "kind", "sentences"),
    [
        (testimony(n=24, named=0.35, late=0.65), TestimonyQuestion, TESTIMONY),
        (disclosure(n=24, trials=9, shown=4, ahead=3), DisclosureQuestion, DISCLOSURE),
    ],
    ids=["testimony", "disclosure"],
)
def test_wordings_of_testimony_and_disclosure(items: Any, kind: Any, sentences: dict[str, tuple[str, ...]]) -> None:
    questions = {str(item.input): item.metadata_as(kind) for item in items}
    for text, question in questions.items():
        for sentence in sentences[question.surface]:
            assert filled(sentence, numbers_of(question)) in text
    assert {question.surface for question in questions.values()} == {*sentences}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_wordings_of_interventions(surface: object) -> None:
    [wording] = [known for known in SURFACES if known is surface]
    rules = ("root", "same", "opposite", "both", "either")
    for rule, sentence in MECHANISMS[wording.name].items():
        if rule in rules:
            found = {other: expression(getattr(wording, other), DEVICE).fullmatch(sentence) for other in rules}
            match = found[rule]
            assert match
            assert [name for name in rules if found[name]] == [rule]
            named = {"part": "Elfi", "one": "Bano", "two": "Ulba", "chance": "37" if rule == "root" else "4"}
            assert match.groupdict() == {name: named[name] for name in match.groupdict()}
        else:
            said = wording.deed(Query(rule, 1, True, 2), ["Elfi", "Bano", "Ulba"])
            assert sentence in " ".join(said.values())
            other = wording.deed(Query(rule, 1, False, 2), ["Elfi", "Bano", "Ulba"])
            assert sentence not in " ".join(other.values())


def test_wordings_of_diagrams() -> None:
    for item in interventions(n=12, learned=1, kind="set", cases=4):
        known, text = item.metadata_as(InterventionsQuestion), str(item.input)
        called = re.findall(r"([A-Z][a-z]+) \d+%[,.]", text)
        for diagram, weight in zip(known.diagrams, known.weights, strict=True):
            drawn = {f"{called[a]} acts on {called[b]}" for b, acting in enumerate(diagram) for a in acting}
            told = [edges.split(", ") for edges in re.findall(rf"[:;] ([^:;]+) \({weight}%\)", text)]
            assert drawn in [set(edges) for edges in told]
        assert f"{called[0]} {known.shares[0]}%" in text
        assert f"parameters {known.strength}qs and {known.strength}q(1 - s)" in text


def check_sentences(question: str, sentences: Sequence[str], numbers: Mapping[str, int]) -> None:
    """Each sentence stands in the question, and each number in a sentence."""
    for sentence in sentences:
        assert sentence in question
    stated = re.findall(r"\d+", " ".join(sentences).replace("2025-03-24", ""))
    assert {str(number) for number in numbers.values()} <= set(stated), "a number without a sentence"


@pytest.mark.parametrize("wording", almanac.WORDINGS, ids=lambda wording: str(wording.name))
def test_wordings_of_almanac(wording: almanac.Wording) -> None:
    numbers = ALMANAC_NUMBERS[wording.kind]
    first, second, readings = ALMANAC_NEWS[wording.name]
    fields = {"case": 7, "place": "Pelket", "first": "Limquo", "second": "Marris", "by": "2025-03-24"}
    question = wording.template.format(**fields, **numbers, opened="2025-03-03", past=first)
    check_sentences(question, ALMANAC_SENTENCES[wording.name], numbers)
    text = WORLDS["almanac"]([question, second])
    assert text
    exact, _ = paths(KINDS[wording.kind], numbers, readings, weeks=4)
    assert text.exact == pytest.approx(exact[1:])


@pytest.mark.parametrize("wording", cruxes.WORDINGS, ids=lambda wording: str(wording.name))
def test_wordings_of_cruxes(wording: cruxes.Wording) -> None:
    post = CRUXES_POSTS[wording.name]
    fields = {"case": 7, "author": "Marris", "place": "Pelket", "count": 3, "rounds": 3, "post": post}
    question = wording.asked.format(**fields, **CRUXES_NUMBERS)
    check_sentences(question, CRUXES_SENTENCES[wording.name], CRUXES_NUMBERS)
    text = WORLDS["cruxes"]([question, *CRUXES_TURNS[wording.name]])
    assert text
    owed = cruxes.paths(CRUXES_NUMBERS, [2, None, 0], CRUXES_ATTACKS, CRUXES_REPLIES, rounds=3)
    assert text.exact == pytest.approx(owed)
