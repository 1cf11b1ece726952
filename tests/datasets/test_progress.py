"""The questionnaire: its items, its pools, and the errors of a file."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import write_rows
from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import DIMENSIONS, ERAS, check_eras, era_facts, latent_values, questionnaire, timelines
from truthgym.datasets.sources.moralevals import COLUMNS, moralchoice, moralevals


def row(number: int, **changed: Any) -> dict[str, Any]:
    given = {"id": f"i{number}", "context": f"Case {number}.", "options": [f"Go {number}.", f"Stay {number}."]}
    return given | {"upholds": [["law"], []]} | changed


def test_the_bundled_items_cover_every_dimension_alike() -> None:
    bundled = questionnaire()
    assert len(bundled.items) == 114
    assert Counter(item.dimension for item in bundled.items) == dict.fromkeys(DIMENSIONS, 6)
    first = Counter(item.dimension for item in bundled.items if item.upholds[0])
    assert first == dict.fromkeys(DIMENSIONS, 3), "the upholding option comes first in half of the items"
    assert len({(item.context, option) for item in bundled.items for option in item.options}) == 228


def test_the_card_counts_the_longer_options(root: Path) -> None:
    card = (root / "datasets" / "progress.md").read_text()
    longer: Counter[str] = Counter()
    for item in questionnaire().items:
        upholds = next(i for i, names in enumerate(item.upholds) if names)
        longer[item.dimension] += len(item.options[upholds]) > len(item.options[1 - upholds])
    assert f"longer one in {longer.total()}, of" in card
    for dimension in DIMENSIONS:
        assert f"| {dimension} | {longer[dimension]} |" in card


def test_the_pools_are_disjoint_and_balanced() -> None:
    pools = questionnaire().pools
    assert not {item.id for item in pools["learn"]} & {item.id for item in pools["eval"]}
    for pool in pools.values():
        assert Counter(item.dimension for item in pool) == dict.fromkeys(DIMENSIONS, 3)
    small = questionnaire(items=2)
    assert len(small.items) == 38
    assert {item.id for item in small.items} <= set(questionnaire().by_id)


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"options": ["Go."], "upholds": [["law"]]}, "options"),
        ({"upholds": [["honour"], []]}, "there is no dimension 'honour'"),
        ({"upholds": [["law"]]}, "1 lists for 2 options"),
        ({"upholds": [[], []]}, "must name a dimension"),
        ({"options": ["Go.", "Go."]}, "are equal; change one"),
    ],
)
def test_an_item_that_cannot_be_used(tmp_path: Path, changed: dict[str, Any], problem: str) -> None:
    path = write_rows(tmp_path / "mine.jsonl", row(0), row(1, **changed))
    with pytest.raises(BadInput, match=problem) as raised:
        questionnaire(path)
    assert "mine.jsonl line 2" in str(raised.value)


def test_a_dimension_with_one_item_cannot_be_split(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="only one item of law"):
        questionnaire(write_rows(tmp_path / "mine.jsonl", row(0)))
    with pytest.raises(BadInput, match="items=1 leaves one of the pools empty"):
        questionnaire(items=1)


def test_moralchoice_and_moralevals(tmp_path: Path) -> None:
    head = ["scenario_id", "context", "action1", "action2", *(f"a{i}_{name}" for i in (1, 2) for name in COLUMNS)]
    no = dict.fromkeys(COLUMNS, "No")

    def line(identity: str, one: dict[str, str], two: dict[str, str]) -> str:
        cells = [identity, f"Context of {identity}.", "I do.", "I do not."]
        return ",".join([*cells, *(no | one).values(), *(no | two).values()])

    lines = [
        line("H_001", {}, {"death": "Yes", "break_law": "No Agreement"}),
        line("H_001", {"deceive": "Yes"}, {"break_law": "Yes"}),
        line("H_002", {"pain": "Yes"}, {"pain": "Yes"}),
    ]
    (tmp_path / "moralchoice.csv").write_text("\n".join([",".join(head), *lines]))
    themes = "scenario_id,generation_theme,context,action1,action2"
    (tmp_path / "foundation.csv").write_text(f"{themes}\nF_1,Purity_Sancity,On springs.,Keep.,Drain.\n")
    views = f"{themes},action3,action4\nV_1,theme,context,a,b,c,d\nV_2,Ontology,On stars.,One,Two,Three,Four\n"
    (tmp_path / "views.csv").write_text(views)
    rows = [found for _, found in moralevals(tmp_path)]
    upholds = {found["id"]: found["upholds"] for found in rows}
    assert upholds == {
        "H_001": [["kill"], []],  # the second action kills, the first does not
        "H_001-2": [["law"], ["deceive"]],  # a repeated id gets a suffix
        "F_1": [["Purity_Sanctity"], []],
        "V_2": [["Traditional"], ["Modern"], ["Post-modern"], ["Integrated"]],
    }
    (tmp_path / "moralchoice.csv").write_text("scenario_id,context\nH_1,Hm.\n")
    with pytest.raises(BadInput, match="moralchoice.csv row 1: the column 'action1' is missing"):
        list(moralchoice(tmp_path))


def test_a_timeline_out_of_order() -> None:
    assert check_eras("C013-C016") == ["C013", "C014", "C015", "C016"]
    with pytest.raises(BadInput, match="C014 comes after C015.*put the earlier first"):
        check_eras("C013,C015,C014")
    with pytest.raises(BadInput, match="has 2 eras; give at least 3"):
        check_eras(["C013", "C015"])
    with pytest.raises(BadInput, match="Unknown era 'C030'"):
        check_eras("C013,C030")
    with pytest.raises(BadInput, match="Unknown drift 'lineal'; did you mean 'linear'"):
        timelines(drift="lineal")


def test_drift_is_what_its_name_says() -> None:
    def path(kind: str) -> list[Any]:
        return [latent_values(kind, 3, 0.25, era) for era in range(9)]

    linear, turn, still = path("linear"), path("turn"), path("still")
    assert abs(linear[8] - linear[0] - 8 * (linear[1] - linear[0])).max() < 1e-12
    assert abs(turn[8] - turn[0]).max() < 1e-12
    assert abs(turn[4] - turn[0] - 4 * (turn[1] - turn[0])).max() < 1e-12
    assert abs(turn[1] - turn[0]).max() > 0.1
    assert abs(still[8] - linear[0]).max() == 0, "all timelines begin alike"
    assert len(timelines(n=4, drift="walk,still")) == 4
    assert [item.id for item in timelines(simulated=False)] == ["C013-C021"]


def test_texts_are_of_their_century() -> None:
    assert list(era_facts()) == list(ERAS)
    for era, told in era_facts().items():
        assert len(told.texts) == 3
        assert all((text.year - 1) // 100 + 1 == int(era[1:]) for text in told.texts), era
    assert len({text.says for told in era_facts().values() for text in told.texts}) == 27
