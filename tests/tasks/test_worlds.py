"""Tasks of generated worlds end to end: agents score what both formulas and their own noise owe them."""

import numpy as np
import pytest
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from numpy.typing import NDArray

from tests.fixtures import Run, reason, samples, says
from tests.fixtures import metrics as metrics_of
from truthgym import tasks
from truthgym.datasets.almanac import AlmanacQuestion
from truthgym.datasets.cruxes import CruxesQuestion
from truthgym.datasets.domains import GENERATED
from truthgym.datasets.loading.generated import GeneratedQuestion
from truthgym.datasets.testimony import TestimonyQuestion
from truthgym.datasets.urns import UrnQuestion
from truthgym.scorers.statistics.proper_scores import RULES
from truthgym.tasks.worlds import almanac, cruxes, disclosure, testimony, urns

ALL = {"brier": {"figures": "all"}}


def metrics(log: EvalLog) -> dict[str, float]:
    return metrics_of(log, 0)


def posteriors(log: EvalLog) -> NDArray[np.float64]:
    """The exact probability of each of the log's questions, given all its evidence."""
    return np.array([s.metadata_as(UrnQuestion).posterior[-1] for s in samples(log) if s.epoch == 1])


@pytest.mark.slow
def test_a_noiseless_bayesian_earns_what_is_owed_to_it(run: Run) -> None:
    log = run(urns(n=120, paradigms=ALL), epochs=1)
    found, p = metrics(log), posteriors(log)
    # What a forecaster who knows p is owed on these very questions, in expectation over their outcomes.
    owed = {name: float(np.mean(p * rule(p, 1) + (1 - p) * rule(p, 0))) for name, rule in RULES.items()}
    assert owed["brier_score"] == pytest.approx(np.mean(p * (1 - p)))
    assert found["brier_lower"] < owed["brier_score"] < found["brier_upper"]
    for name in ("log_score", "spherical_score", "accuracy"):
        assert found[f"{name}_lower"] < owed[name] < found[f"{name}_upper"]
    assert found["brier_upper"] - found["brier_lower"] < 0.09
    assert found["share_scored"] == 1
    assert abs(found["murphy_reliability"]) < 0.01
    assert found["calibration_slope"] == pytest.approx(1, abs=0.35)
    assert found["ece"] == pytest.approx(found["ece_null"], abs=0.03)
    assert found["skill_base_rate_lower"] > 0


def test_who_answers_only_where_sure_is_shown(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    task = urns(n=60, paradigms=ALL)
    honest = metrics(run(task, epochs=1))
    with caplog.at_level("INFO"):
        sure = metrics(run(task, get_model("reference/bayesian", min_confidence=0.35), epochs=1))
    assert sure["share_scored"] < 0.6
    assert sure["brier"] < honest["brier"] - 0.05, "by itself the score rewards silence"
    assert honest["brier_imputed"] == honest["brier"]
    assert sure["brier_imputed"] > honest["brier"]
    (warning,) = [record.message for record in caplog.records if "could be scored" in record.message]
    assert f"of 60 answers ({sure['share_scored']:.0%})" in warning
    assert "brier_imputed" in warning


def test_one_answer_in_ten_may_be_unread(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    replies = iter(["Hm.", *[r"\finalBeliefProb{0.4}"] * 9])
    with caplog.at_level("INFO"):
        paradigms = {"brier": {"repair": 0}}
        found = metrics(
            run(urns(n=10, paradigms=paradigms), says(lambda _: next(replies)), epochs=1, max_connections=1)
        )
    assert found["share_scored"] == 0.9
    assert not [record for record in caplog.records if "could be scored" in record.message]


@pytest.mark.parametrize("world", [world for world in GENERATED if world != "urns"])
@pytest.mark.parametrize(("agent", "path"), [("bayesian", "posterior"), ("naive", "naive")])
def test_an_agent_states_what_its_formula_gives(run: Run, world: str, agent: str, path: str) -> None:
    log = run(getattr(tasks, world)(n=6), f"reference/{agent}", epochs=2)
    assert log.results
    owed = []
    for item in samples(log):
        known, scores = item.metadata or {}, item.scores or {}
        final, first = known[path][-1], known[path][0]
        owed.append((final - (item.target == "yes")) ** 2)
        stated = {belief["stage"]: belief["value"] for belief in (scores["martingale"].metadata or {})["beliefs"]}
        assert stated["prior"] == pytest.approx(first, abs=0.0051)
        assert stated["posterior"] == pytest.approx(final, abs=0.0051)
    found = {score.name: score.metrics for score in log.results.scores}["brier"]
    assert found["brier"].value == pytest.approx(np.mean(owed), abs=2e-4)
    assert found["share_scored"].value == 1


def test_witnesses_and_reports_reach_the_questions(run: Run) -> None:
    log = run(testimony(n=2, witnesses=2, reports=3, paradigms="brier"), epochs=1)
    known = [item.metadata_as(TestimonyQuestion) for item in log.samples or []]
    assert {len(q.content) for q in known} == {3}
    assert {one for q in known for one in q.source} <= {0, 1}


def test_arguments_of_almanac_and_cruxes_reach_the_questions() -> None:
    for item in almanac(n=3, kind="league", history=1, news=2, ahead=5).dataset:
        known = item.metadata_as(AlmanacQuestion)
        assert (known.kind, len(known.readings), len(known.evidence), known.weeks) == ("league", 3, 2, 8)
    for item in cruxes(n=3, reasons=5, rounds=2, shown=0.0).dataset:
        asked = item.metadata_as(CruxesQuestion)
        assert (asked.words, len(asked.evidence)) == ([None] * 5, 4)


def test_pairs_stay_out_of_the_martingale_score(run: Run) -> None:
    log = run(disclosure(n=4, trials=4, shown=1, pairs=True), "reference/bayesian", epochs=2)
    for item in samples(log):
        assert len(item.metadata_as(GeneratedQuestion).evidence) == 2
        assert "which was not drawn by the question's own rule" in reason(item, "martingale")
    found = {score.name: score.metrics for score in (log.results.scores if log.results else [])}
    assert found["brier"]["share_scored"].value == 1
    assert found["martingale"]["share_scored"].value == 0
