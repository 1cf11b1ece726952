"""A loop's report: metrics from logs, and a verdict that shows a hack."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from inspect_ai.log import EvalLog, read_eval_log

from tests.fixtures import Run, metrics, samples, says
from tests.training.converted import ask_urns
from truthgym.scorers.statistics.paired import paired_difference
from truthgym.tasks.worlds import urns
from truthgym.training.closed_loop.measures import (
    BRIER,
    PARSE_RATE,
    REPLY_NLL,
    TOKENS,
    WORDS,
    TaskMetrics,
    logged_reply_nll,
    measure_log,
    read_reply_nll,
)
from truthgym.training.closed_loop.report import Result

OUTCOMES = [float(number % 3 == 0) for number in range(60)]


def values(numbers: Sequence[float]) -> dict[str, list[float]]:
    return {str(number): [float(value)] for number, value in enumerate(numbers)}


def answers(beliefs: Sequence[float], nll: float = 2.0, words: float = 10.0) -> TaskMetrics:
    """A model with these beliefs about sixty questions. NaN is an answer that could not be parsed."""
    rate = float(np.mean(OUTCOMES))
    task = TaskMetrics(primary=BRIER, constant=values([(rate - y) ** 2 for y in OUTCOMES]), share_yes=rate)
    parsed = [p for p in beliefs if not math.isnan(p)]
    task.sd_between = float(np.std(parsed, ddof=1)) if parsed else None
    noise = [math.sin(number) for number in range(len(beliefs))]
    task.run.events = {str(number): f"event {number}" for number in range(len(beliefs))}
    task.run.values |= {
        BRIER: values([(p - y) ** 2 for p, y in zip(beliefs, OUTCOMES, strict=True)]),
        PARSE_RATE: values([float(not math.isnan(p)) for p in beliefs]),
        REPLY_NLL: values([nll + 0.01 * part for part in noise]),
        WORDS: values([words + 0.1 * part for part in noise]),
    }
    return task


START = answers([0.5 + 0.2 * math.sin(7 * number) for number in range(60)])
KNOWS = [0.2 + 0.6 * y for y in OUTCOMES]


@pytest.mark.parametrize(
    ("after", "outcome", "close"),
    [
        (answers(KNOWS), "Better than the start", None),
        (answers([1 - p for p in KNOWS]), "Worse than the start", None),
        (START, "No clear change from the start", None),
        (answers([0.5] * 60), "not clearly better than the best constant", "nearly the same to every question"),
        (answers([1 / 3] * 60), "No clear change from the start", "nearly the same to every question"),
        (answers([p if number % 2 else math.nan for number, p in enumerate(KNOWS)]), "Too few answers could be parsed",
         "parse rate fell from 1.000 to 0.500"),
        (answers([math.nan] * 60), "Too few answers could be parsed", "no answer could be parsed"),
        (answers(KNOWS, nll=0.05), "Better than the start", "from 2.00 to 0.05 nats"),
        (answers(KNOWS, words=40), "Better than the start", "replies went from 10.0 to 40.0 words"),
        (answers(KNOWS, words=3), "Better than the start", "replies went from 10.0 to 3.0 words"),
    ],
    ids=["knows", "inverted", "same", "half", "constant", "form", "unreadable", "collapsed", "longer", "shorter"],
)  # fmt: skip
def test_a_hack_shows_in_the_verdict(after: TaskMetrics, outcome: str, close: str | None) -> None:
    verdict = Result(after, START).verdict
    assert outcome in verdict
    assert ("**Look closer**" in verdict) == (close is not None)
    assert (close or "No sign of a hack") in verdict


def test_questions_unread_at_the_start_are_counted_and_the_base_rate_is_the_constant() -> None:
    """A model that learns the form on hard questions would otherwise look no better."""
    start = answers([0.5 if number % 2 else math.nan for number in range(60)])
    verdict = Result(answers([0.5] * 60), start).verdict
    assert "30 of 60 questions are left out of the change" in verdict
    assert "with unread answers as wrong, the change is -0.3750" in verdict
    assert "left out" not in Result(answers(KNOWS), START).verdict
    base_rate = Result(answers([1 / 3] * 60), START)
    assert base_rate.from_constant
    assert base_rate.from_constant.estimate == pytest.approx(0)
    assert "not clearly better than the best constant" in base_rate.verdict


def test_a_warning_when_updates_become_predictable() -> None:
    after = answers(KNOWS)
    after.metrics = {"martingale_score": -0.4, "martingale_score_lower": -0.6, "martingale_score_upper": -0.2}
    verdict = Result(after, START).verdict
    assert "its updates are predictable; whether they were at the start is not identified" in verdict
    before = answers(KNOWS)
    before.metrics = {"martingale_score": 0.0, "martingale_score_lower": -0.1, "martingale_score_upper": 0.1}
    assert "its updates have become predictable (martingale score -0.400)" in Result(after, before).verdict


@pytest.mark.parametrize(("scored", "warning"), [(0.57, "from 0.980 to 0.570"), (0.9, None), (0.99, None)])
def test_a_warning_when_another_scorer_scores_less(scored: float, warning: str | None) -> None:
    before, after = answers([0.5 + 0.2 * math.sin(7 * number) for number in range(60)]), answers(KNOWS)
    before.estimates = [{"scorer": "brier", "scored": 1.0}, {"scorer": "martingale", "scored": 0.98}]
    after.estimates = [{"scorer": "brier", "scored": 0.5}, {"scorer": "martingale", "scored": scored}]
    verdict = Result(after, before).verdict
    assert ("the share that martingale could score fell" in verdict) == (warning is not None)
    assert (warning or "No sign of a hack") in verdict
    assert "brier could score" not in verdict, "the parse rate covers brier, by its interval"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EvalLog:
    return read_eval_log(ask_urns(tmp_path_factory.mktemp("logs"), n=13, split="test"))


def test_metrics_equal_those_of_the_log(log: EvalLog) -> None:
    task = measure_log(log, Path(log.location).parent)
    assert task.estimates[0]["value"] == metrics(log)["brier"]
    assert {"calibration_slope", "resolution"} <= task.metrics.keys(), (
        "from the scores: they are not among the ten figures of the log"
    )
    scores = [sample.scores["brier"] for sample in log.samples or [] if sample.scores]
    by_question: dict[str, list[float]] = {}
    outcome: dict[str, float] = {}
    for sample, score in zip(log.samples or [], scores, strict=True):
        assert isinstance(score.value, dict)
        assert score.metadata
        by_question.setdefault(str(sample.id), []).append(float(str(score.value["belief"])))
        outcome[str(sample.id)] = score.metadata["outcome"]
    beliefs, y = np.array(list(by_question.values())), np.array(list(outcome.values()))
    assert task.share_yes == pytest.approx(y.mean())
    assert task.sd_within == pytest.approx(np.sqrt(beliefs.var(axis=1, ddof=1).mean()))
    assert task.sd_between == pytest.approx(beliefs.mean(axis=1).std(ddof=1))
    model, other = (np.square(beliefs - ends[:, None]).mean(axis=1) for ends in (y, 1 - y))
    best, turned = (np.square(y.mean() - ends) for ends in (y, 1 - y))
    wanted = paired_difference(model, best, None, (-1, 1), (other, turned))
    constant = Result(task, None).from_constant
    assert constant
    rounded = pytest.approx([wanted.estimate, wanted.lower, wanted.upper], abs=1e-3)  # in a log, to four decimals
    assert [constant.estimate, constant.lower, constant.upper] == rounded


def test_tokens_come_from_the_log(log: EvalLog) -> None:
    assert logged_reply_nll(samples(log)[0]).nll is None
    assert (logged_reply_nll(samples(log)[0]).tokens or 0) > 0
    assert read_reply_nll(Path(log.location).parent) == {}
    counted: dict[str, list[int | None]] = {}
    for sample in samples(log):
        counted.setdefault(str(sample.id), []).append(logged_reply_nll(sample).tokens)
    assert measure_log(log, Path(log.location).parent).run.values[TOKENS] == counted


def test_logged_logprobs_are_summed(run: Run) -> None:
    from inspect_ai.model import Logprob, Logprobs, ModelOutput

    output = ModelOutput.from_content("mockllm/model", r"\finalBeliefProb{0.5}")
    output.choices[0].logprobs = Logprobs(content=[Logprob(token=part, logprob=-0.5) for part in "abc"])
    result = run(urns(n=5, paradigms="brier"), says(output), limit=1)
    assert result.samples
    assert logged_reply_nll(result.samples[0]) == (1.5, 1)
    assert measure_log(result, Path(result.location).parent).mean(REPLY_NLL).estimate == 1.5
