"""A loop's report: figures from logs, and a verdict in which a hack shows."""

import math
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import Model

from truthgym.scorers.statistics.interval import mean_headline
from truthgym.tasks.urns import urns
from truthgym.training.closed_loop.likelihood import measured, said
from truthgym.training.closed_loop.measures import BRIER, FORM, NATS, TOKENS, WORDS, Measured, measure_log
from truthgym.training.closed_loop.report import figures_of
from truthgym.training.evaluations import Values

OUTCOMES = [float(number % 3 == 0) for number in range(60)]


def values(numbers: Sequence[float]) -> Values:
    return {str(number): ("test", f"event {number}", [float(value)]) for number, value in enumerate(numbers)}


def answers(beliefs: Sequence[float], nats: float = 2.0, words: float = 10.0) -> Measured:
    """A model that says these of sixty questions. NaN is an answer that could not be read."""
    rate = float(np.mean(OUTCOMES))
    found = Measured([], {}, primary=BRIER, constant=values([(rate - y) ** 2 for y in OUTCOMES]), share_yes=rate)
    read = [p for p in beliefs if not math.isnan(p)]
    found.sd_between = float(np.std(read, ddof=1)) if read else None
    wobble = [math.sin(number) for number in range(len(beliefs))]
    found.values |= {
        BRIER: values([(p - y) ** 2 for p, y in zip(beliefs, OUTCOMES, strict=True)]),
        FORM: values([float(not math.isnan(p)) for p in beliefs]),
        NATS: values([nats + 0.01 * part for part in wobble]),
        WORDS: values([words + 0.1 * part for part in wobble]),
        TOKENS: {},
    }
    return found


START = answers([0.5 + 0.2 * math.sin(7 * number) for number in range(60)])
KNOWS = [0.2 + 0.6 * y for y in OUTCOMES]


@pytest.mark.parametrize(
    ("after", "said", "close"),
    [
        (answers(KNOWS), "Better than the start", None),
        (answers([1 - p for p in KNOWS]), "Worse than the start", None),
        (START, "No clear change from the start", None),
        (answers([0.5] * 60), "not clearly better than the best constant", "nearly the same to every question"),
        (answers([1 / 3] * 60), "No clear change from the start", "nearly the same to every question"),
        (
            answers([p if number % 2 else math.nan for number, p in enumerate(KNOWS)]),
            "Better than the start",
            "answers in form fell from 1.000 to 0.500",
        ),
        (answers([math.nan] * 60), "Too few answers could be read", "no answer could be read"),
        (answers(KNOWS, nats=0.05), "Better than the start", "entropy went from 2.00 to 0.05 nats"),
        (answers(KNOWS, words=40), "Better than the start", "answers went from 10.0 to 40.0 words"),
        (answers(KNOWS, words=3), "Better than the start", "answers went from 10.0 to 3.0 words"),
    ],
    ids=["knows", "inverted", "same", "half", "constant", "form", "unreadable", "collapsed", "longer", "shorter"],
)
def test_a_hack_shows_in_the_verdict(after: Measured, said: str, close: str | None) -> None:
    verdict = figures_of(after, START)["verdict"]
    assert said in verdict
    assert ("**Look closer**" in verdict) == (close is not None)
    assert (close or "No sign of a hack") in verdict


def test_whoever_only_says_the_base_rate_is_not_better_than_the_constant() -> None:
    told = figures_of(answers([1 / 3] * 60), START)
    assert told["from_constant"]["difference"] == pytest.approx(0)
    assert "not clearly better than the best constant" in told["verdict"]


def test_updates_that_become_predictable_are_told_of() -> None:
    after = answers(KNOWS)
    after.metrics = {"martingale_score": -0.4, "martingale_score_lower": -0.6, "martingale_score_upper": -0.2}
    verdict = figures_of(after, START)["verdict"]
    assert "its updates are predictable, and whether they were at the start cannot be told" in verdict
    before = answers(KNOWS)
    before.metrics = {"martingale_score": 0.0, "martingale_score_lower": -0.1, "martingale_score_upper": 0.1}
    assert "its updates have become predictable (martingale score -0.400)" in figures_of(after, before)["verdict"]


@pytest.mark.parametrize(("scored", "said"), [(0.57, "from 0.980 to 0.570"), (0.9, None), (0.99, None)])
def test_beliefs_that_can_be_read_no_longer_are_told_of(scored: float, said: str | None) -> None:
    before, after = answers([0.5 + 0.2 * math.sin(7 * number) for number in range(60)]), answers(KNOWS)
    before.headlines = [{"scorer": "brier", "scored": 1.0}, {"scorer": "martingale", "scored": 0.98}]
    after.headlines = [{"scorer": "brier", "scored": 0.5}, {"scorer": "martingale", "scored": scored}]
    verdict = figures_of(after, before)["verdict"]
    assert ("what martingale could read of it fell" in verdict) == (said is not None)
    assert (said or "No sign of a hack") in verdict
    assert "what brier could read" not in verdict, "of the answers, `in form` tells by its interval"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EvalLog:
    from inspect_ai import eval

    place = tmp_path_factory.mktemp("logs")
    task = urns(n=60, split="test", paradigms="brier")
    (made,) = eval(task, model="reference/bayesian", model_args={"noise": 0.2}, epochs=3, log_dir=str(place),
                   display="log", log_realtime=False)  # fmt: skip
    return read_eval_log(made.location)


def test_figures_are_those_of_the_log(log: EvalLog) -> None:
    found = measure_log(log, Path(log.location).parent)
    assert log.results
    metrics = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
    assert found.headlines[0]["value"] == metrics["brier"]
    assert found.metrics["resolution"] == metrics["resolution"]
    scores = [sample.scores["brier"] for sample in log.samples or [] if sample.scores]
    by_question: dict[str, list[float]] = {}
    outcome: dict[str, float] = {}
    for sample, score in zip(log.samples or [], scores, strict=True):
        assert isinstance(score.value, dict)
        assert score.metadata
        by_question.setdefault(str(sample.id), []).append(float(str(score.value["belief"])))
        outcome[str(sample.id)] = score.metadata["outcome"]
    beliefs = np.array(list(by_question.values()))
    y = np.array(list(outcome.values()))
    assert found.share_yes == pytest.approx(y.mean())
    assert found.sd_within == pytest.approx(np.sqrt(beliefs.var(axis=1, ddof=1).mean()))
    assert found.sd_between == pytest.approx(beliefs.mean(axis=1).std(ddof=1))
    differences = np.square(beliefs - y[:, None]).mean(axis=1) - np.square(y.mean() - y)
    wanted = mean_headline(differences)
    told = figures_of(found, None)["from_constant"]
    # The scores in a log have four decimals.
    assert [told["difference"], told["lower"], told["upper"]] == pytest.approx(
        [wanted.estimate, wanted.lower, wanted.upper], abs=1e-4
    )


def test_what_the_log_says_of_words(log: EvalLog) -> None:
    assert log.samples
    assert said(log.samples[0]).nats is None
    assert (said(log.samples[0]).tokens or 0) > 0
    assert measured(Path(log.location).parent) == {}
    found = measure_log(log, Path(log.location).parent).values[TOKENS]
    counted: dict[str, list[int | None]] = {}
    for sample in log.samples:
        counted.setdefault(str(sample.id), []).append(said(sample).tokens)
    assert {question: numbers for question, (_, _, numbers) in found.items()} == counted


def test_logprobs_of_a_log_are_summed(says: Callable[..., Model], run: Callable[..., EvalLog]) -> None:
    from inspect_ai.model import Logprob, Logprobs, ModelOutput

    output = ModelOutput.from_content("mockllm/model", r"\finalBeliefProb{0.5}")
    output.choices[0].logprobs = Logprobs(content=[Logprob(token=part, logprob=-0.5) for part in "abc"])
    made = run(urns(n=5, paradigms="brier"), says(output), limit=1)
    assert made.samples
    assert said(made.samples[0]) == (1.5, 1)
    told = measure_log(made, Path(made.location).parent).mean(NATS)
    assert told
    assert told["mean"] == 1.5


def test_log_probabilities_do_not_depend_on_the_batch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Minus the log-probability of a reply, against a pass of its own without padding. Long ones are not together."""
    import torch
    from transformers import AutoModelForCausalLM

    from truthgym.training.closed_loop.likelihood import _nats, _passes
    from truthgym.training.tiny import tiny

    model = AutoModelForCausalLM.from_pretrained(tiny(tmp_path / "tiny", steps=0, hidden=32))
    rows = [("a", [5, 6, 7, 8, 9], [10, 11]), ("b", [5, 6], [7]), ("c", [9] * 20, [1, 2, 3, 4])]
    monkeypatch.setattr("truthgym.training.closed_loop.likelihood.POSITIONS", 20)
    parts = list(_passes(rows))
    assert [[uuid for uuid, *_ in part] for part in parts] == [["b", "a"], ["c"]]
    found = {uuid: (nats, tokens) for part in parts for uuid, nats, tokens in _nats(model, part, torch)}
    for uuid, asked, reply in rows:
        with torch.inference_mode():
            logits = model(torch.tensor([[*asked, *reply]])).logits[0].log_softmax(-1)
        wanted = -sum(float(logits[len(asked) - 1 + at, token]) for at, token in enumerate(reply))
        assert found[uuid][0] == pytest.approx(wanted, abs=1e-4)
        assert found[uuid][1] == len(reply)
