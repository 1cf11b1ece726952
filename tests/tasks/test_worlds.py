"""Tasks of generated worlds end to end: agents without noise score what the exact and the naive formula owe them."""

import numpy as np
import pytest

from tests.fixtures import Reason, Run
from truthgym import tasks
from truthgym.datasets.almanac import AlmanacQuestion
from truthgym.datasets.cruxes import CruxesQuestion
from truthgym.datasets.domains import GENERATED
from truthgym.datasets.loading.generated import GeneratedQuestion
from truthgym.datasets.testimony import TestimonyQuestion
from truthgym.tasks.worlds import almanac, cruxes, disclosure, testimony


@pytest.mark.parametrize("world", [world for world in GENERATED if world != "urns"])
@pytest.mark.parametrize(("agent", "path"), [("bayesian", "posterior"), ("naive", "naive")])
def test_an_agent_states_what_its_formula_gives(run: Run, world: str, agent: str, path: str) -> None:
    log = run(getattr(tasks, world)(n=6), f"reference/{agent}", epochs=2)
    assert log.samples
    assert log.results
    owed = []
    for item in log.samples:
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


def test_pairs_stay_out_of_the_martingale_score(run: Run, reason: Reason) -> None:
    log = run(disclosure(n=4, trials=4, shown=1, pairs=True), "reference/bayesian", epochs=2)
    assert log.samples
    for item in log.samples:
        assert len(item.metadata_as(GeneratedQuestion).evidence) == 2
        assert "which was not drawn by the question's own rule" in reason(item, "martingale")
    found = {score.name: score.metrics for score in (log.results.scores if log.results else [])}
    assert found["brier"]["share_scored"].value == 1
    assert found["martingale"]["share_scored"].value == 0
