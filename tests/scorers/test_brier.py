"""The Brier paradigm: its arithmetic, and the scorer and metric through real evals on a mock model."""

import logging
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task
from inspect_ai.analysis import evals_df
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ModelOutput
from inspect_ai.scorer import SampleScore, Score
from inspect_ai.solver import generate
from inspect_ai.util import Store
from scipy import stats

from tests.fixtures import Run, details, metrics, reason, samples, says, score_of, task_of
from tests.scorers.main_figures import MAIN_FIGURES
from tests.scorers.scores import scored
from truthgym.datasets.question import Question, question, sample
from truthgym.scorers.brier import brier, summarise
from truthgym.scorers.graded import graded
from truthgym.scorers.statistics.calibration import expected_calibration_error, murphy_decomposition
from truthgym.scorers.statistics.proper_scores import (
    accuracy_score,
    brier_score,
    log_score,
    skill_score,
    spherical_score,
)
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.direct import direct
from truthgym.solvers.trajectory import recorded_answer


def item(identity: str, target: str | None, **fields: Any) -> Sample:
    expected = question(
        Question, identity, **{"domain": "t", "event": identity, "proposition": f"{identity} is so."} | fields
    )
    return sample(identity, f"Is {identity} so?", target, expected, identity)


def scores(beliefs: list[list[float | None]], outcomes: list[float], **facts: list[Any]) -> list[SampleScore]:
    rows = []
    for i, (row, outcome) in enumerate(zip(beliefs, outcomes, strict=True)):
        for epoch, belief in enumerate(row, start=1):
            value = {"belief": math.nan if belief is None else belief}
            rows.append(scored(f"q{i}", value, epoch, outcome=outcome, **{k: v[i] for k, v in facts.items()}))
    return rows


def test_known_values() -> None:
    assert brier_score(0.7, 1) == pytest.approx(0.09)
    assert log_score(0.25, 1) == pytest.approx(math.log(4))
    assert log_score(0.0, 1) == pytest.approx(-math.log(0.005))
    assert spherical_score(0.6, 1) == pytest.approx(0.6 / math.sqrt(0.6**2 + 0.4**2))
    assert accuracy_score([0.7, 0.7, 0.5, 0.2], [1, 0, 1, 0]).tolist() == [1, 0, 0.5, 1]


@pytest.mark.parametrize("rule", [brier_score, log_score, spherical_score, accuracy_score])
def test_turning_the_proposition_round_changes_no_score(rule: Callable[..., Any]) -> None:
    p, y = np.linspace(0, 1, 21), np.arange(21) % 2
    assert rule(1 - p, 1 - y) == pytest.approx(rule(p, y))


@pytest.mark.parametrize(("rule", "sign"), [(brier_score, 1), (log_score, 1), (spherical_score, -1)])
def test_scores_are_proper(rule: Callable[..., Any], sign: int) -> None:
    reports = np.linspace(0.01, 0.99, 99)
    for truth in (0.1, 0.37, 0.5, 0.9):
        expected = sign * (truth * rule(reports, 1) + (1 - truth) * rule(reports, 0))
        assert reports[np.argmin(expected)] == pytest.approx(truth, abs=0.006)


@pytest.mark.parametrize("rule", [brier_score, log_score, spherical_score, accuracy_score])
def test_nan_passes_and_nonsense_is_refused(rule: Callable[..., Any]) -> None:
    assert np.isnan(rule([np.nan, 0.5, np.nan], [1, np.nan, np.nan])).all()
    with pytest.raises(ValueError, match=r"forecast 1.2 is not a probability"):
        rule([0.1, 1.2], [1, 1])
    with pytest.raises(ValueError, match=r"outcome 0.5 is neither 0 nor 1"):
        rule([0.1], [0.5])
    with pytest.raises(ValueError, match="shape"):
        rule([0.1, 0.2], [1, 0, 1])


def test_skill_of_the_reference_is_zero_and_of_the_truth_one() -> None:
    reference = np.array([0.2, 0.3, 0.25, 0.1])
    clusters = list("abcd")
    same = skill_score(reference, reference, clusters)
    assert (same.estimate, same.lower, same.upper) == pytest.approx((0, 0, 0))
    assert skill_score(np.zeros(4), reference, clusters).estimate == pytest.approx(1)


def test_the_interval_of_a_skill_is_fiellers_and_few_misses_leave_it_open_below() -> None:
    rng = np.random.default_rng(2)
    r = rng.uniform(0.1, 0.4, 30)
    s = 0.7 * r + rng.normal(0, 0.05, 30)
    found = skill_score(s, r, [str(i) for i in range(30)])
    t2 = stats.t.ppf(0.975, 29) ** 2 / 30
    (vs, c), (_, vr) = np.cov(s, r)
    line = [r.mean() ** 2 - t2 * vr, -2 * (s.mean() * r.mean() - t2 * c), s.mean() ** 2 - t2 * vs]
    assert sorted(1 - np.roots(line)) == pytest.approx([found.lower, found.upper], abs=1e-5)
    near, p = np.full(30, 0.0004), np.full(30, 0.001)  # nobody missed: a miss of either alone would decide
    open_below = skill_score(near + 1e-6 * np.arange(30), p, [str(i) for i in range(30)], (1 - near, 0.94 + p))
    assert np.isnan(open_below.lower) or open_below.lower < -50
    assert open_below.upper > 0.9 > open_below.estimate


def test_repeated_noise_costs_its_variance() -> None:
    rng = np.random.default_rng(0)
    outcome = rng.integers(0, 2, 3000).astype(float)
    p = np.clip(0.5 + rng.normal(0, 0.1, (3000, 3)), 0, 1)
    result = summarise(tabulate(scores(p.tolist(), outcome.tolist()), "belief"))
    # E[(p-y)²] = (mean - y)² + var; the mean of three keeps a third of it
    assert result["brier"] - result["brier_of_mean"] == pytest.approx(0.01 * 2 / 3, abs=0.0005)


def test_every_interval_is_clustered_by_event() -> None:
    rng = np.random.default_rng(3)
    p, y = rng.random((20, 2)).repeat(2, axis=0), rng.integers(0, 2, 20).repeat(2).astype(float)
    expected = {"base_rate": [0.4] * 40, "crowd": [0.3] * 40}
    events = [f"e{i // 2}" for i in range(40)]
    alone = summarise(tabulate(scores(p.tolist(), y.tolist(), **expected), "belief"))
    joined = summarise(tabulate(scores(p.tolist(), y.tolist(), event=events, **expected), "belief"))
    names = [name.removesuffix("_lower") for name in joined if name.endswith("_lower")]
    assert {"brier", "brier_of_mean", "skill_base_rate", "skill_crowd"} <= set(names)
    for name in names:
        assert joined[name] == pytest.approx(alone[name])
        widths = [result[f"{name}_upper"] - result[f"{name}_lower"] for result in (alone, joined)]
        assert 1.4 < widths[1] / widths[0] < 1.6, name  # each event counts twice: the root of 2, and fewer degrees


def test_calibration_is_the_mean_over_all_epochs() -> None:
    rng = np.random.default_rng(4)
    p, y = rng.random((50, 2)), rng.integers(0, 2, 50).astype(float)
    result = summarise(tabulate(scores(p.tolist(), y.tolist()), "belief"))
    parts = [murphy_decomposition(p[:, k], y, events=range(50)) for k in range(2)]
    errors = [expected_calibration_error(p[:, k], y, events=range(50)) for k in range(2)]
    assert result["epochs"] == 2
    assert result["murphy_reliability"] == pytest.approx(np.mean([part.reliability for part in parts]))
    assert result["resolution"] == pytest.approx(np.mean([entry.resolution for entry in parts]))
    assert (result["ece"], result["ece_null"], result["ece_null_upper"]) == pytest.approx(np.mean(errors, axis=0))


def test_reference_forecasts() -> None:
    result = summarise(
        tabulate(
            scores([[0.9], [0.2], [0.5]], [1, 0, 1], base_rate=[0.5, None, None], crowd=[0.8, None, 0.9]), "belief"
        )
    )
    b = np.array([0.01, 0.04, 0.25])
    references = np.array([0.25, (2 / 3) ** 2, (1 / 3) ** 2])
    assert result["skill_base_rate"] == pytest.approx(1 - b.mean() / references.mean())
    assert result["skill_crowd"] == pytest.approx(1 - (0.01 + 0.25) / (0.04 + 0.01))


def test_a_table_takes_what_comes() -> None:
    good = scores([[0.9, 0.8]], [1.0])
    again = scores([[0.7]], [1.0])
    edited = scores([[70.0], [0.4]], [1.0, 3.0])[0:2]
    odd = [
        SampleScore(score=Score(value="C"), sample_id=1),
        SampleScore(score=Score(value={"belief": "x"}), sample_id="1"),
    ]
    table = tabulate([*good, *again], "belief")
    assert table.values.tolist() == [[0.7, 0.8]], "the last of two scores for one epoch counts, and counts once"
    assert table.share_scored == 1
    assert np.isnan(tabulate(edited[:1], "belief").values).all()
    assert np.isnan(tabulate(edited[1:], "belief").outcome).all()
    assert tabulate(odd, "belief").values.shape == (2, 1), "1 and '1' are two samples"
    summarise(tabulate([*good, *edited, *odd], "belief"))


def test_unread_answers_count_at_the_base_rate_and_epochs_that_were_not_run_do_not() -> None:
    beliefs: list[list[float | None]] = [[0.9, None], [None, None], [0.2, 0.2], [None, 0.5]]
    some = scores(beliefs, [1, 0, 0, math.nan], base_rate=[None, 0.4, None, None])
    result = summarise(tabulate(some, "belief"))
    # The share of yes is that of all questions with an outcome, 1 of 3, whichever were answered.
    imputed = [(0.01 + (2 / 3) ** 2) / 2, 0.4**2, 0.04]
    assert result["brier_imputed"] == pytest.approx(np.mean(imputed))
    assert result["brier"] == pytest.approx((0.01 + 0.04) / 2)
    assert result["brier_imputed_lower"] < result["brier_imputed"] < result["brier_imputed_upper"]
    result = summarise(tabulate(scores([[0.9, 0.9], [0.9]], [1, 0]), "belief"))
    assert result["brier_imputed"] == pytest.approx((0.01 + 0.81) / 2) == pytest.approx(result["brier"])


ESTIMATE = list(MAIN_FIGURES["brier"])


def test_from_reply_to_metric(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    replies = {"a": 0.9, "b": 0.2, "c": 0.6}

    def reply(messages: list[ChatMessage]) -> str:
        return rf"So. \finalBeliefProb{{{next(p for q, p in replies.items() if f'Is {q} so?' in messages[-1].text)}}}"

    dataset = [item("a", "yes"), item("b", "no"), item("c", "no", event="b")]
    with caplog.at_level("INFO"):
        log = run(task_of(dataset, direct(), brier(), epochs=2), says(reply))
    result = metrics(log, 0)
    assert list(result) == ESTIMATE
    assert result["brier"] == pytest.approx((0.01 + 0.04 + 0.36) / 3)
    assert (result["n"], result["share_scored"]) == (3, 1)
    assert result["brier_imputed"] == pytest.approx(result["brier"]), "every answer was read"
    # two events are too few for an interval
    assert np.isnan([result["brier_lower"], result["brier_upper"], result["mde"]]).all()
    (warning,) = [record.message for record in caplog.records if "ask 100" in record.message]
    assert "3 questions" in warning
    assert "nan" not in warning
    first = score_of(samples(log)[0], "brier")
    assert first.value == {
        "belief": 0.9, "brier_score": 0.01, "accuracy": 1.0, "log_score": 0.1054, "spherical_score": 0.9939
    }  # fmt: skip
    assert first.answer == "0.9"
    assert first.explanation == "Belief 0.9, outcome yes: (0.9 - 1)² = 0.0100."


@pytest.mark.parametrize("reply", ["I will not say.", r"\finalBeliefProb{73}"])
def test_an_unreadable_answer_is_nan_with_its_reason(run: Run, reply: str) -> None:
    def answer(messages: list[ChatMessage]) -> str:
        return reply if "Is b so?" in messages[0].text else r"\finalBeliefProb{0.5}"

    dataset = [item("a", "yes"), item("b", "no"), item("c", "no"), item("d", "yes")]
    log = run(task_of(dataset, direct(), brier()), says(answer))
    result = metrics(log, 0)
    assert (result["share_scored"], result["n"], result["brier"]) == (0.75, 3, 0.25)
    message = "No single belief could be read in the answer (stop reason stop), which begins: "
    assert reason(samples(log)[1], "brier").startswith(message)


@pytest.mark.parametrize("figures", ["headline", "all"])
def test_figures_are_ten_or_all_and_evals_df_finds_the_error(run: Run, figures: Any) -> None:
    task = task_of([item(q, "yes" if q in "ab" else "no") for q in "abcd"], direct(), brier(figures=figures))
    log = run(task, says(lambda m: rf"\finalBeliefProb{{0.{1 + len(m[-1].text) % 5}}}"))
    result = metrics(log, 0)
    assert list(result)[:10] == ESTIMATE
    assert (len(result) == 10) == (figures == "headline")
    assert ("murphy_reliability" in result, "reliability" in result) == (figures == "all", False)
    row = evals_df(log.location).iloc[0]
    assert row["score_headline_metric"] == "brier"
    assert row["score_headline_stderr"] == pytest.approx(result["stderr"])


def test_a_log_without_readable_answers_says_so_once(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    task = task_of([item(q, "yes") for q in "ab"], direct(), brier())
    with caplog.at_level(logging.INFO):
        run(task, says("Hm."))
    (warning,) = [r.message for r in caplog.records if "could be read, so there is no score" in r.message]
    assert "none of the 2 answers" in warning
    assert "begins: 'Hm.'" in warning


def test_a_question_without_a_known_outcome_is_unscored(run: Run) -> None:
    dataset = [item("a", "yes"), item("b", None)]
    log = run(task_of(dataset, direct(), brier()), says(r"\finalBeliefProb{0.5}"))
    assert metrics(log, 0)["share_scored"] == 1, "the answer was read"
    assert reason(samples(log)[1], "brier") == "The question has no known outcome."
    assert details(samples(log)[1], "brier")["belief"] == 0.5


def test_a_recorded_end_is_the_reason(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        refused = ModelOutput.from_content("m", r"\finalBeliefProb{0.1}", stop_reason="content_filter")
        return refused if any(m.role == "assistant" for m in messages) else r"\finalBeliefProb{0.9}"

    log = run(task_of(item("a", "yes"), [direct(), direct()], brier()), says(reply))
    (unread,) = samples(log)
    assert recorded_answer(Store(unread.store)) == r"\finalBeliefProb{0.9}"
    assert reason(unread, "brier") == "The model refused: its provider filtered the reply."
    assert (details(unread, "brier")["belief"], score_of(unread, "brier").answer) == (None, None)


def test_a_sample_that_failed_is_no_score(run: Run) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        if "Is b so?" in messages[-1].text:
            raise RuntimeError("the network went away")
        return r"\finalBeliefProb{0.5}"

    dataset = [item("a", "yes"), item("b", "no"), item("c", "no")]
    log = run(task_of(dataset, direct(), brier()), says(reply), fail_on_error=False)
    assert (metrics(log, 0)["n"], metrics(log, 0)["share_scored"]) == (2, 1)


@pytest.mark.parametrize(("target", "outcome"), [("Yes", 1), (" TRUE ", 1), ("1", 1), ("y", 1), ("False", 0), ("0", 0)])
def test_a_target_may_be_written_otherwise(run: Run, target: str, outcome: int) -> None:
    rain = Sample(input="Will it rain?", target=target)
    log = run(Task([rain], solver=generate(), scorer=[brier(), graded()]), says(r"\finalBeliefProb{0.8}"))
    expected = pytest.approx(0.04 if outcome else 0.64)
    assert [metrics(log, 0)["brier"], metrics(log, 1)["grade"]] == [expected, expected]


@pytest.mark.parametrize(
    ("text", "target", "more"),
    [("Will it rain?", "maybe", {}), ("How many moons?", "1", {}), ("Is it?", "1", {"choices": ["It is.", "No."]})],
)
def test_a_target_of_another_kind_is_named(run: Run, text: str, target: str, more: Any) -> None:
    log = run(Task([Sample(input=text, target=target, **more)], solver=generate(), scorer=brier()), says("0.8"))
    assert f"ts target '{target}' is neither yes nor no" in reason(samples(log)[0], "brier")
    assert "-S about=own_answer" in reason(samples(log)[0], "brier")


def test_another_solver_needs_no_trajectory(run: Run) -> None:
    log = run(Task(dataset=[item("a", "yes")], solver=generate(), scorer=brier()), says("Probability: 80%"))
    assert metrics(log, 0)["brier"] == pytest.approx(0.04)


@pytest.mark.parametrize(("others", "effective"), [(0, 1.0), (6, 2.35), (30, 4.75)])
def test_questions_of_one_event_are_no_evidence(
    others: int, effective: float, run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    dataset = [item(f"q{i}", "yes" if i % 3 else "no", event="one" if i < 30 else f"e{i}") for i in range(30 + others)]
    with caplog.at_level("INFO"):
        log = run(task_of(dataset, direct(), brier(figures="all")), says("70%"))
    result = metrics(log, 0)["effective_clusters"]
    assert result == pytest.approx(effective, abs=0.05)
    assert np.isnan(metrics(log, 0)["mde"]) == (effective < 3)
    (warning,) = [record.message for record in caplog.records if "independent observations" in record.message]
    assert f"rests on about {result:.1f} independent observations, not on {30 + others}, because many share" in warning
