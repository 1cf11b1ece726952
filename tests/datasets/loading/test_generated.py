import math
import random

import pytest

from truthgym.datasets.loading.generated import SYLLABLES, generate, listed, names, probability
from truthgym.datasets.question import Question
from truthgym.datasets.urns import urns


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
