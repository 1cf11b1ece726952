from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import write_eval_log
from inspect_ai.model import get_model
from inspect_ai.scorer import match

from tests.analysis.answer_tables import Values, rows_of
from tests.analysis.conftest import Tables
from tests.fixtures import Run, evaluate, says
from truthgym.analysis import agreement, attribution, leaderboard
from truthgym.analysis.leaderboard import differences
from truthgym.analysis.tables.models import ACROSS
from truthgym.datasets.errors import BadInput
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns

MEANS = {"first": 0.10, "same as first": 0.10, "second": 0.16, "third": 0.26}


def noise(seed: int, n: int = 120) -> Values:
    return np.random.default_rng(seed).normal(0, 0.1, (n, 2))


def models_of_known_means(modes: tuple[str, ...] = ("direct",), n: int = 120) -> dict[tuple[str, str], Values]:
    """Models of known means on questions of known difficulty. Two of them give the same numbers."""
    difficulty = np.random.default_rng(0).normal(0, 0.3, (n, 1))
    seeds = {"first": 1, "same as first": 1, "second": 2, "third": 3}
    return {(name, mode): MEANS[name] + difficulty + noise(seeds[name], n) for name in MEANS for mode in modes}


def test_planted_differences_are_found_and_a_model_ties_with_itself() -> None:
    frame = differences(rows_of(models_of_known_means()))
    assert set(frame["n"]) == {120}
    truth = frame["model"].map(MEANS) - frame["other"].map(MEANS)
    same = frame["other"].eq("same as first") & frame["model"].eq("first")
    assert (frame["lower"].le(truth) & truth.le(frame["upper"]))[~same].all()
    assert frame["better"].ne("").tolist() == truth.ne(0).tolist()
    assert frame.loc[same, ["difference", "p_adjusted"]].to_numpy().tolist() == [[0, 1]]
    assert frame.loc[same, "lower"].isna().all(), "equal pairs of a score without a range have no interval"
    board = leaderboard.leaderboard(frame)
    assert dict(zip(board["model"], board["rank"], strict=True)) == {
        "first": "1-2", "same as first": "1-2", "second": "3", "third": "4"
    }  # fmt: skip
    bare = leaderboard.leaderboard(frame.drop(columns=["of", "by"]))
    assert bare["rank"].tolist() == board["rank"].tolist(), "pairs made without a category are a leaderboard too"


def test_higher_is_better_for_accuracy() -> None:
    frame = differences(rows_of(models_of_known_means(), key="accuracy"))
    assert leaderboard.leaderboard(frame)["model"].iloc[0] == "third"
    assert set(frame["best"]) == {"highest"}
    grades = rows_of(models_of_known_means(), scorer="graded", key="grade")
    grades.attrs["higher_is_better"] = {"graded": False}
    assert leaderboard.leaderboard(differences(grades))["model"].iloc[3] == "third"


def test_questions_of_several_setups_count_once_as_an_event() -> None:
    frame = differences(rows_of(models_of_known_means(("direct", "self_debate"))))
    pair = frame.query("model == 'first' and other == 'third'").set_index("setup")
    direct, across = pair.loc["urns, direct"], pair.loc[ACROSS]
    assert (across["n"], across["clusters"]) == (240, 120)
    assert across["upper"] - across["lower"] == pytest.approx(direct["upper"] - direct["lower"])  # no more is known
    assert frame["setup"].iloc[0] == ACROSS


def test_what_cannot_be_compared_is_said() -> None:
    values = {
        ("a", "direct"): noise(0, 60)[:, :1],
        ("b", "direct"): noise(1, 32)[:, :1],
        ("c", "cot"): noise(2, 60)[:, :1],
    }
    values["b", "direct"][0] = np.nan
    frame = differences(rows_of(values))
    assert frame["n"].tolist() == [31]
    notes = " ".join(frame.attrs["notes"])
    for part in ("one epoch", "31 of 60 questions", "urns, cot: only c", "all 2 setups"):
        assert part in notes
    with pytest.raises(BadInput, match="No score with a better end; the logs have brier/belief"):
        differences(rows_of(values, key="belief"))
    slopes = rows_of({("a", "direct"): noise(0, 30)}, scorer="martingale", key="change")
    both = differences(pd.concat([rows_of({("a", "direct"): noise(0, 30), ("b", "direct"): noise(1, 30)}), slopes]))
    assert "martingale (no number of an answer has a better end" in " ".join(both.attrs["notes"])
    right = rows_of(models_of_known_means(), scorer="agent_answer", key="answer")
    notes = " ".join(differences(pd.concat([rows_of(models_of_known_means()), right]), key="answer").attrs["notes"])
    assert "brier (key=answer names none of its numbers that has a better end)" in notes
    assert "no number of an answer" not in notes
    few = rows_of({(name, "direct"): noise(i, 6)[:, :1] for i, name in enumerate("ab")})
    with pytest.raises(BadInput, match=r"models can be compared\. Not compared: .*share 6 questions .*10 that both"):
        differences(few)
    with pytest.raises(BadInput, match=r"models can be compared\. Not compared: .*only a .*one model alone was run"):
        differences(rows_of({("a", "direct"): noise(0, 20)}))


def test_a_model_with_many_unread_answers_has_no_rank() -> None:
    values = {(name, "direct"): MEANS["first"] + noise(i, 30) for i, name in enumerate("abc")}
    values["c", "direct"][:6] = np.nan
    values["c", "direct"] -= 1  # what it answered would make it the best
    frame = differences(rows_of(values))
    assert set(frame["model"]) | set(frame["other"]) == {"a", "b"}
    assert "Not compared: brier/brier_score of c in urns, direct (less than 90 %" in " ".join(frame.attrs["notes"])
    del values["b", "direct"]
    with pytest.raises(BadInput, match="less than 90 % of the answers could be read"):
        differences(rows_of(values))


def test_uneven_silence_is_not_tested() -> None:
    values = {(name, "direct"): MEANS["first"] + noise(i, 60) for i, name in enumerate("ab")}
    values["b", "direct"] -= 1
    values["b", "direct"][:4] = np.nan  # 93 % are read, and 7 points fewer than of the other
    frame = differences(rows_of(values))
    assert frame["better"].tolist() == ["not tested"]
    assert frame["lower"].isna().all()
    assert "93.3 % and 100 % of their answers" in " ".join(frame.attrs["notes"])


def test_reworded_questions_are_other_questions(run: Run, tmp_path: Path) -> None:
    for name, words in (("one", "Is {} odd?"), ("two", "Is the number {} odd?")):
        samples = [Sample(id=i, input=words.format(i) if i < 5 else f"Is {i} odd?", target="A") for i in range(20)]
        log = run(Task(dataset=samples, scorer=match(), name="numbers"), says("A"), epochs=1)
        log.eval.model = name
        write_eval_log(log, str(tmp_path / f"{name}.eval"))
    frame = leaderboard.load([tmp_path / "one.eval", tmp_path / "two.eval"])
    assert frame["n"].tolist() == [15]
    assert any("behind 0, 1, 2 and 2 more differ" in note for note in frame.attrs["notes"])


def test_the_solvers_of_one_model_are_ranked_and_ties_are_named(table: Tables) -> None:
    rows = rows_of({("m", mode): 0.3 + noise(i, 40) + (mode == "debate") for i, mode in enumerate("abc")})
    better = rows_of({("m", "debate"): noise(3, 40)})
    table(rows, better)
    board = leaderboard.leaderboard(leaderboard.load("logs"))
    equal = list(board["model"].iloc[1:])
    assert board[["setup", "model", "rank", "tied"]].to_numpy().tolist() == [
        ["urns, m", "debate", "1", ""],
        *(["urns, m", o, "2-4", " and ".join(p for p in equal if p != o)] for o in equal),
    ]
    assert leaderboard.in_words(board) == "debate is the best of 4 solvers"
    assert leaderboard.in_words(board.iloc[1:].assign(best_rank=1)).startswith("no difference between ")
    with pytest.raises(BadInput, match="No two models can be compared"):
        leaderboard.load("logs", of="models")
    table(better)
    with pytest.raises(BadInput, match="of='solvers': no model answered .* with two solvers"):
        leaderboard.load("logs", of="solvers")


def test_ranks_by_category_are_corrected_for_the_number_of_categories(table: Tables) -> None:
    values = {(name, "direct"): 0.2 * (name == "b") + noise(i, 40) for i, name in enumerate("ab")}
    kinds = {run: np.array([["odd"] * 2, ["even"] * 2] * 20) for run in values}
    table(rows_of(values, category=kinds))
    frame = leaderboard.load("logs", by="kind")
    parts = frame[frame["by"] == "kind"].set_index("setup")
    assert sorted(parts.index) == ["urns, direct, kind even", "urns, direct, kind odd"]
    assert parts["n"].tolist() == [20, 20]
    assert parts["p_adjusted"].min() == pytest.approx(2 * parts["p"].min())
    assert set(parts["better"]) == {"a"}
    assert "Fewer than 30 independent events: even (20), odd (20)" in " ".join(frame.attrs["notes"])
    assert set(frame.loc[frame["by"] == "", "setup"]) == {"urns, direct"}


def test_the_user_leaves_models_out_and_names_others(folder: Path) -> None:
    frame = leaderboard.load(folder, "brier", exclude="chain_of_thought", labels="bayesian=Bayes,contrarian=Contra")
    assert set(frame["setup"]) == {"urns, direct"}
    assert {*frame["model"], *frame["other"]} == {"Bayes", "Contra"}
    left_out = "urns, chain_of_thought steps=1"
    assert leaderboard.chart(frame).to_dict()["title"]["text"] == f"Left out: {left_out}"
    assert f"Left out by the user: {left_out}." in leaderboard.report(frame, "x.svg")
    with pytest.raises(BadInput, match="would all be 'One'; give longer parts"):
        leaderboard.load(folder, labels="reference=One")


def test_what_was_not_tested_is_no_tie() -> None:
    values = {(name, "direct"): noise(i, 30) for i, name in enumerate("ab")}
    frame = differences(rows_of(values, per_event=30))
    assert frame["better"].tolist() == ["not tested"]
    assert leaderboard.leaderboard(frame)["rank"].tolist() == ["", ""]
    assert "fewer than three independent events" in " ".join(frame.attrs["notes"])
    assert "| not tested |" in leaderboard.report(frame)
    with pytest.raises(BadInput, match="ask about more events"):
        leaderboard.chart(frame)


def test_caveats_of_one_kind_are_one_note() -> None:
    values = {("a", "direct"): noise(0, 30), ("b", "direct"): noise(1, 30)}
    values |= {("c", f"m{i}"): noise(i, 30) for i in range(7)}
    only = "; ".join(f"brier/brier_score, urns, m{i}: only c" for i in range(5))
    assert differences(rows_of(values)).attrs["notes"] == [
        f"Not compared: {only}; and 2 more (one model alone was run).",
        "Not compared across setups: brier/brier_score (no two models have all 8 setups).",
    ]


def test_the_chart_has_a_panel_for_each_setup_with_a_baseline() -> None:
    frame = differences(rows_of(models_of_known_means(("direct", "self_debate"))))
    panels = leaderboard.chart(frame).to_dict()["vconcat"]
    assert [panel["title"]["text"] for panel in panels] == [
        f"brier/brier_score, {setup}" for setup in (ACROSS, "urns, direct", "urns, self_debate")
    ]
    tied = "120 shared questions: first and same as first share the first place of 4 models and are not told apart"
    assert panels[1]["title"]["subtitle"] == [tied]
    ranks, gaps = panels[1]["hconcat"]
    assert ranks["encoding"]["y"]["sort"] == ["first", "same as first", "second", "third"]
    assert gaps["layer"][0]["encoding"]["x"]["datum"] == 0
    assert "lower is better" in gaps["layer"][1]["encoding"]["x"]["title"]
    page = leaderboard.report(frame, "x.svg")
    assert "| all setups | 1-2 | first | 0.000 | same as first | 240 |" in page
    assert "240 shared questions" in page


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models on ten urns in two modes, and one of them rated by two judges."""
    folder = tmp_path_factory.mktemp("logs")
    agents = [get_model(f"reference/{name}", noise=0.05, care=0.5) for name in ("bayesian", "contrarian")]
    for solver in (None, chain_of_thought(steps=1)):
        evaluate(urns(n=10, paradigms="brier"), agents, folder, solver=solver, epochs=2)
    paradigms: dict[str, Any] = {
        "martingale": {"elicitor": "both"},
        "qualitative": {"shots": 1, "orders": 1, "probes": []},
    }
    judges = [get_model("reference/judge"), get_model("reference/judge", seed=1)]
    evaluate(urns(n=10, paradigms=paradigms), agents[0], folder, epochs=1, model_roles={"judge": judges})
    return folder


def test_logs_are_read(folder: Path) -> None:
    both = leaderboard.leaderboard(leaderboard.load(folder, scorer="brier"))
    solvers = both[both["of"] == "solvers"]
    models = ["reference/bayesian noise=0.05 care=0.5", "reference/contrarian noise=0.05 care=0.5"]
    assert set(solvers["setup"]) == {ACROSS, *(f"urns, {model}" for model in models)}
    assert set(solvers["model"]) == {"direct", "chain_of_thought steps=1"}
    board = both[both["of"] == "models"]
    assert set(board["setup"]) == {ACROSS, "urns, direct", "urns, chain_of_thought steps=1"}
    assert set(board["model"].iloc[[1, 3, 5]]) == {"reference/contrarian noise=0.05 care=0.5"}
    frame = agreement.load(folder)
    kinds = frame.groupby("kind")["measure"].agg(set).to_dict()
    assert kinds["judges"] == {"quality"}
    assert kinds["elicitors"] == {"prior", "posterior"}
    assert kinds["setups"] == kinds["epochs"] == {"brier/brier_score"}
    explained = attribution.load(folder, scorer="brier")
    kind = dict(zip(explained["feature"], explained["kind"], strict=True))
    assert kind["model"] == kind["mode"] == "assigned"
    assert kind["confidence"] == "observed"
