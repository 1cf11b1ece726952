"""Arguments of several tasks go to those that take them."""

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.rollouts.task_args import shared_out

TAKEN = {"truthgym/urns": ("n", "seed", "draws"), "truthgym/forecasting": ("n", "source")}


def test_an_argument_goes_to_the_tasks_that_take_it() -> None:
    assert shared_out(TAKEN, {"n": 9, "draws": 2}) == {
        "truthgym/urns": {"n": 9, "draws": 2},
        "truthgym/forecasting": {"n": 9},
    }


def test_what_stands_under_a_task_is_for_it_alone_and_what_comes_later_counts() -> None:
    shared = shared_out(TAKEN, {"n": 9, "urns": {"n": 5}}, {"forecasting": {"n": 7}})
    assert shared == {"truthgym/urns": {"n": 5}, "truthgym/forecasting": {"n": 7}}


@pytest.mark.parametrize("given", [{"draw": 2}, {"urns": {"source": "x"}}], ids=["none", "other"])
def test_an_argument_that_is_not_taken_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(BadInput, match="takes no argument"):
        shared_out(TAKEN, given)
