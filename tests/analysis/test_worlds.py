"""The rows of the table of generated worlds."""

from inspect_ai.model import get_model

from tests.fixtures import Run, Says
from truthgym.analysis import worlds
from truthgym.datasets.domains import GENERATED
from truthgym.tasks.worlds import testimony, urns


def test_a_row_of_each_reader(run: Run) -> None:
    rows = {}
    for name in ("bayesian", "naive"):
        rows[name] = worlds.row(run(testimony(n=20, paradigms="brier"), f"reference/{name}", epochs=2))
        assert rows[name][:4] == ("testimony", f"reference/{name}", "20", "100%")
    assert rows["bayesian"][5].startswith("0.000 ")
    assert (rows["bayesian"][8], rows["naive"][8]) == ("exact", "naive")


def test_unread_answers_and_a_world_without_a_naive_reader(run: Run, says: Says) -> None:
    silent = worlds.row(run(urns(n=12, paradigms="brier"), says("I would rather not say."), epochs=1))
    assert (silent[2], silent[3], silent[8]) == ("0", "0%", "-")
    exact = worlds.row(run(urns(n=12, paradigms="brier"), get_model("reference/bayesian"), epochs=1))
    assert exact[6].startswith("1.0")
    assert exact[7] == "-"


def test_every_generated_world_is_asked() -> None:
    assert {world.__name__ for world in worlds.WORLDS} == set(GENERATED)
