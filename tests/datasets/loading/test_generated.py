import math
import random

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.generated import SYLLABLES, form, generate, listed, names, probability, read_back
from truthgym.datasets.question import Question
from truthgym.datasets.testimony import find_testimony, testimony
from truthgym.datasets.urns import SURFACES, UrnQuestion, find_urn, urns
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.reading import read_conversation

ASKED = "Is box {case} full? It is with {base} in 100."
FORMS = [form(ASKED, {"heavy": "Box {case}, try {k}: heavy.", "light": "Box {case}, try {k}: light.",
                      "last": "Box {case} rattles."})]  # fmt: skip
BOX = ASKED.format(case=7, base=30)


def kinds(text: str) -> list[str]:
    found = read_back("boxes", text, FORMS)
    return [kind for kind, _ in found.pieces] if found else []


def test_pieces_are_read_in_their_order_and_once() -> None:
    assert kinds(f"Box 7 rattles. Box 7, try 2: light. {BOX} Box 7, try 1: heavy. Box 7, try 2: light.") == [
        "heavy", "light", "last"]  # fmt: skip
    assert kinds(f"{BOX} Box 8, try 1: heavy.") == []
    assert kinds("Box 7, try 1: heavy.") == []
    text = f"So. {BOX} Box 7, try 1: heavy. Box 7, try 1: heavy. {BOX} The end."
    found = read_back("boxes", text, FORMS)
    assert found
    assert text[: found.begins] == "So. "
    assert text[found.ends :].count("heavy") == 1


def test_pieces_after_another_question_with_the_same_number_are_its_own() -> None:
    other = ASKED.format(case=7, base=60)
    assert kinds(f"{other} Box 7, try 1: light. {BOX} Box 7, try 1: heavy.") == ["heavy"]
    assert kinds(f"{BOX} Box 7, try 1: heavy. {other} Box 7, try 1: light. {BOX}") == ["heavy"]


def test_evidence_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(BadInput, match="boxes: the evidence contradicts itself: 'Box 7, try 1: heavy.' and") as error:
        kinds(f"{BOX} Box 7, try 1: heavy. I see: Box 7, try 1: light.")
    assert "'Box 7, try 1: light.' are in one conversation; leave one of them out" in str(error.value)
    [item] = urns(n=1)
    known = item.metadata_as(UrnQuestion)
    surface = next(one for one in SURFACES if one.name == known.surface)
    both = [words.format(case=1000, k=1) for words in (surface.marked, surface.unmarked)]
    for read in (find_urn, lambda text: read_conversation(text, 1, 0, Parameters())):
        with pytest.raises(BadInput, match="urns: the evidence contradicts itself"):
            read("\n".join([str(item.input), *both]))


def test_testimony_of_nobody_is_refused() -> None:
    [item] = testimony(n=1, named=1.0)
    piece = item.metadata_as(Question).evidence[0]
    person = piece.rstrip(".").split()[-1]
    with pytest.raises(BadInput, match="testimony: the evidence contradicts itself"):
        find_testimony(f"{item.input}\n{piece.replace(person, 'Nobody')}")


def test_a_path_of_beliefs_becomes_log_likelihood_ratios() -> None:
    found = read_back("boxes", f"{BOX} Box 7, try 1: heavy.", FORMS)
    assert found
    seen = found.seen([0.25, 0.5], [0.5, 0.75], "It is full.")
    assert (seen.asked, seen.begins, seen.evidence_ends, seen.prior) == (BOX, 0, found.ends, 0.25)
    assert seen.log_likelihood_ratios == pytest.approx([math.log(3)])
    assert seen.naive_log_likelihood_ratios == pytest.approx([math.log(3)])
    assert (seen.proposition, seen.naive_prior) == ("It is full.", 0.5)


def test_the_first_questions_of_a_split_are_taken() -> None:
    made = list(urns(n=50))
    drawn = generate("boxes", lambda i: made[i], 4, "test")
    assert [item.id for item in drawn] == [
        item.id for item in made if item.metadata_as(Question).split == "test"
    ][:4]  # fmt: skip
    assert drawn.name == "boxes"


def test_names_are_different_and_made_of_two_syllables() -> None:
    drawn = names(random.Random(1), 240)
    assert len(set(drawn)) == 240 == len(SYLLABLES) * (len(SYLLABLES) - 1)
    assert listed(["Bano", "Elfi", "Ulba"]) == "Bano, Elfi and Ulba"
    assert probability(math.log(3)) == pytest.approx(0.75)
