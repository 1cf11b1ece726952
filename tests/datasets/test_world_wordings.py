"""Do the wordings say what their numbers mean? Sentences written by hand, so that swapped slots are noticed."""

import re

import pytest

from tests.datasets.reading_back import DEVICE, expression
from truthgym.datasets.disclosure import RULES, DisclosureQuestion, disclosure
from truthgym.datasets.interventions import SURFACES, InterventionsQuestion, interventions
from truthgym.datasets.testimony import TestimonyQuestion, testimony
from truthgym.datasets.worlds.networks import Query

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


def filled(sentence: str, numbers: dict[str, int]) -> str:
    return re.sub("[A-Z]{3,}", lambda name: str(numbers[name[0]]), sentence)


def test_wordings_of_testimony() -> None:
    seen = set()
    for item in testimony(n=24, named=0.35, late=0.65):
        known = item.metadata_as(TestimonyQuestion)
        numbers = {"BASE": round(100 * (known.base_rate or 0)), "HIT": known.hit, "ALARM": known.false_alarm,
                   "GARBLE": known.garble, "REPORTS": len(known.content)}  # fmt: skip
        for sentence in TESTIMONY[known.surface]:
            assert filled(sentence, numbers) in str(item.input)
        seen.add(known.surface)
    assert seen == {*TESTIMONY}


def test_wordings_of_disclosure() -> None:
    seen = set()
    for item in disclosure(n=24, trials=9, shown=4, ahead=3):
        known = item.metadata_as(DisclosureQuestion)
        numbers = {"BASE": round(100 * (known.base_rate or 0)), "HIT": known.hit, "ALARM": known.false_alarm}
        numbers |= {rule.upper(): weight for rule, weight in zip(RULES, known.weights, strict=True)}
        for sentence in DISCLOSURE[known.surface]:
            assert filled(sentence, numbers) in str(item.input)
        seen.add(known.surface)
    assert seen == {*DISCLOSURE}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_wordings_of_interventions(surface: object) -> None:
    [wording] = [one for one in SURFACES if one is surface]
    rules = ("root", "same", "opposite", "both", "either")
    for rule, sentence in MECHANISMS[wording.name].items():
        if rule in rules:
            found = {other: expression(getattr(wording, other), DEVICE).fullmatch(sentence) for other in rules}
            match = found[rule]
            assert match
            assert [one for one in rules if found[one]] == [rule]
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
            told = [one.split(", ") for one in re.findall(rf"[:;] ([^:;]+) \({weight}%\)", text)]
            assert drawn in [set(one) for one in told]
        assert f"{called[0]} {known.shares[0]}%" in text
        assert f"parameters {known.strength}qs and {known.strength}q(1 - s)" in text
