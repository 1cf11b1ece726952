"""Do the wordings say what their numbers mean? Sentences written by hand, in wordings.json, show swapped fields."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.reading_back import DEVICE, WORLDS, expression
from truthgym.datasets import almanac, cruxes
from truthgym.datasets.almanac import KINDS, paths
from truthgym.datasets.disclosure import RULES, DisclosureQuestion, disclosure
from truthgym.datasets.interventions import SURFACES, InterventionsQuestion, Query, interventions
from truthgym.datasets.loading.generated import Wording
from truthgym.datasets.testimony import TestimonyQuestion, testimony

SAID: dict[str, dict[str, Any]] = json.loads(Path(__file__).with_name("wordings.json").read_text(encoding="utf-8"))
"""By world and wording: sentences in which NAMES stand for numbers, or the numbers below."""
ALMANAC_NUMBERS = {
    "polls": {"up": 31, "down": 17, "anew": 2, "lean": 4, "leaning": 33, "one": 14, "two": 8, "threshold": 49},
    "reservoir": {"swap": 9, "one": 41, "two": 27, "anew": 3, "misread": 16, "threshold": 11},
    "league": {"change": 6, "threshold": 3},
    "outbreak": {"swap": 12, "one": 38, "two": 26, "anew": 1, "prompt": 57, "threshold": 14},
    "price": {"up": 29, "down": 18, "anew": 2, "rumour": 24, "size": 6, "fade": 45, "threshold": 37},
}
CRUXES_NUMBERS = {
    "light": 41, "middle": 33, "heavy": 26, "unfit": 9, "fit": 82, "study": 61, "story": 22, "granted": 71,
    "wavering": 14, "kept": 77, "doubted": 12, "low": 27, "mid": 56, "high": 17, "shown": 48,
}  # fmt: skip
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
        (testimony(n=24, named=0.35, late=0.65), TestimonyQuestion, SAID["testimony"]),
        (disclosure(n=24, trials=9, shown=4, ahead=3), DisclosureQuestion, SAID["disclosure"]),
    ],
    ids=["testimony", "disclosure"],
)
def test_wordings_of_testimony_and_disclosure(items: Any, kind: Any, sentences: dict[str, list[str]]) -> None:
    questions = {str(item.input): item.metadata_as(kind) for item in items}
    for text, question in questions.items():
        for sentence in sentences[question.surface]:
            assert filled(sentence, numbers_of(question)) in text
    assert {question.surface for question in questions.values()} == {*sentences}


@pytest.mark.parametrize("surface", SURFACES, ids=lambda surface: surface.name)
def test_wordings_of_interventions(surface: object) -> None:
    [wording] = [known for known in SURFACES if known is surface]
    rules = ("root", "same", "opposite", "both", "either")
    for rule, sentence in SAID["interventions"][wording.name].items():
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
def test_wordings_of_almanac(wording: Wording) -> None:
    numbers = ALMANAC_NUMBERS[wording.kind]
    said = SAID["almanac"][str(wording.name)]
    first, second = said["news"]
    fields = {"case": 7, "place": "Pelket", "first": "Limquo", "second": "Marris", "by": "2025-03-24"}
    question = wording.template.format(**fields, **numbers, opened="2025-03-03", past=first)
    check_sentences(question, said["sentences"], numbers)
    text = WORLDS["almanac"]([question, second])
    assert text
    exact, _ = paths(KINDS[wording.kind], numbers, [*map(tuple, said["readings"])], weeks=4)
    assert text.exact == pytest.approx(exact[1:])


@pytest.mark.parametrize("wording", cruxes.WORDINGS, ids=lambda wording: str(wording.name))
def test_wordings_of_cruxes(wording: Wording) -> None:
    said = SAID["cruxes"][str(wording.name)]
    fields = {"case": 7, "author": "Marris", "place": "Pelket", "count": 3, "rounds": 3, "post": said["post"]}
    question = wording.asked.format(**fields, **CRUXES_NUMBERS)
    check_sentences(question, said["sentences"], CRUXES_NUMBERS)
    text = WORLDS["cruxes"]([question, *said["turns"]])
    assert text
    owed = cruxes.paths(CRUXES_NUMBERS, [2, None, 0], CRUXES_ATTACKS, CRUXES_REPLIES, rounds=3)
    assert text.exact == pytest.approx(owed)
