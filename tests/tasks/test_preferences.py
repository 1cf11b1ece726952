"""Preference labels: planted biases are found, a real task records what the judge says, and rows follow the labels."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import statsmodels.api as sm
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import SampleScore
from numpy.typing import NDArray
from scipy.stats import rankdata

from tests.fixtures import Run, evaluate, metrics, says, write_rows
from tests.training.converted import edit_log, rows
from truthgym.datasets.constitution import constitution
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.agent import NOT_A_MODEL
from truthgym.models.agents.judge import Request, first_is_better
from truthgym.models.agents.lengths import MORE
from truthgym.models.agents.policies import Parameters, generator
from truthgym.models.agents.quality_markers import MARKERS, quality
from truthgym.scorers.graders.grader import Grader
from truthgym.scorers.preference import label_of, summarise
from truthgym.scorers.statistics.preference import label_biases
from truthgym.solvers.critique_revise import CRITIQUES, DRAFT, critique_revise
from truthgym.tasks.preferences import comparison_request, preferences
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import ConversionConfig
from truthgym.training.convert import convert

N = 24
GOLD = "graded/grade"


def reply(*key: object) -> str:
    """A reply whose quality and length are drawn apart from each other."""
    rng = generator("reply", *key)
    words = [*rng.choice(MARKERS, rng.integers(9), replace=False), *rng.choice(MORE, rng.integers(20))]
    return f"{' '.join(words)}\n\n\\finalBeliefProb{{0.5}}"


def judged(n: int, own: bool = True, **planted: Any) -> dict[str, float]:
    """The figures of a judge with planted biases on n pairs, one reply of each from its own family."""
    scores = []
    for i in range(n):
        texts = [f"{NOT_A_MODEL.format(agent='bayesian')} {reply(i, 0)}" if own else reply(i, 0), reply(i, 1)]
        vendors = ["reference" if own else "other", "other"]
        order = [int(k) for k in generator("order", i).permutation(2)]
        sides = [{"text": texts[k], "vendor": vendors[k]} for k in order]
        better = quality(sides[0]["text"]) - quality(sides[1]["text"])
        pair = {"first": sides[0], "second": sides[1], "gold": int(np.sign(better))}

        def probability(one: str, other: str) -> float:
            request = comparison_request("1. Be good.", "Which?", one, other)
            return first_is_better(Request((("user", request),), 1, 0, Parameters(**planted))) / 100

        first, second = sides[0]["text"], sides[1]["text"]
        answers = {"given": probability(first, second), "swapped": probability(second, first), "vendor": "reference"}
        score = label_of(pair, answers)
        scores.append(SampleScore(score=score, sample_id=str(i)))
    return summarise(scores)


def error(found: dict[str, float], name: str) -> float:
    return (found[f"{name}_upper"] - found[f"{name}_lower"]) / 3.92


@pytest.fixture(scope="module")
def biased() -> dict[str, float]:
    return judged(1500, accuracy=0.8, position=0.2, length=0.2, preference=0.3)


@pytest.mark.parametrize(
    ("name", "planted"),
    [
        ("position_bias", 0.2),
        ("self_preference", (1 - 0.2) * 0.3),
        ("length_bias", (1 - 0.2) * (1 - 0.3) * 0.2),
        # One answer by position and one by content disagree in half of the cases, two by position always.
        ("ties", 0.2 * 0.8 + 0.2**2),
    ],
)
def test_planted_biases_are_recovered_together(biased: dict[str, float], name: str, planted: float) -> None:
    assert abs(biased[name] - planted) < 3.5 * error(biased, name)
    assert error(biased, name) < 0.04


def test_planted_accuracy_is_recovered_despite_position_bias() -> None:
    found = judged(800, own=False, accuracy=0.75, position=0.4)
    assert abs(found["accuracy_decided"] - 0.75) < 3.5 * error(found, "accuracy_decided")
    ties = 0.4 * 0.6 + 0.4**2
    assert abs(found["accuracy"] - (ties / 2 + (1 - ties) * 0.75)) < 3.5 * error(found, "accuracy")
    assert found["length_bias_lower"] < 0 < found["length_bias_upper"]
    assert np.isnan(found["self_preference"]), "no pair has one reply of its own"


def biased_pairs(noise: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Labels of a judge that errs where two replies are close, gold's differences, and which reply is longer."""
    rng = np.random.default_rng(5)
    apart = rng.normal(size=2000)
    longer = np.sign(0.7 * apart + 0.71 * rng.normal(size=2000))
    label = np.where(rng.random(2000) < 1 / (1 + np.exp(-2 * apart)), 1, -1)
    return label, apart + noise * rng.normal(size=2000), longer


def test_what_goes_with_quality_is_no_bias_if_gold_says_by_how_much() -> None:
    label, gold, longer = biased_pairs(0.0)
    none, names = np.zeros(2000), list(range(2000))
    assert label_biases(label, np.sign(gold), longer, none, names)["length_bias"].lower > 0.03
    found = label_biases(label, gold, longer, none, names)["length_bias"]
    assert found.lower < 0 < found.upper
    columns = np.column_stack([np.sign(gold), np.sign(gold) * rankdata(np.abs(gold)), longer])
    assert found.estimate == pytest.approx(sm.OLS(label, columns).fit().params[2])
    # Gold may be on any scale, and either reply may be first.
    assert label_biases(-label, -7 * gold, -longer, none, names)["length_bias"].estimate == pytest.approx(
        found.estimate
    )
    label, gold, longer = biased_pairs(1.0)
    assert label_biases(label, gold, longer, none, names)["length_bias"].lower > 0.1, "quality leaks into it"


def test_gold_from_an_outcome_is_flagged() -> None:
    pair = {"first": {"text": "a b"}, "second": {"text": "a"}, "gold": 1, "gold_difference": 0.2}
    answers = {"given": 0.9, "swapped": 0.1}
    plain, noisy = (
        summarise([SampleScore(score=label_of(pair | more, answers), sample_id="1")])
        for more in ({}, {"gold_noisy": True})
    )
    assert "flag_noisy_gold" not in plain
    assert noisy["flag_noisy_gold"] == 1


def test_a_judge_that_goes_by_order_alone_labels_nothing() -> None:
    answers = {"given": 0.9, "swapped": 0.9, "vendor": "x"}
    pair = {"first": {"text": "a b", "vendor": "x"}, "second": {"text": "a", "vendor": "y"}, "gold": 1}
    score = label_of(pair, answers)
    assert isinstance(score.value, dict)
    assert (score.value["position"], score.value["preferred"], score.value["margin"]) == (1, 0, 0)
    figures = summarise([SampleScore(score=score, sample_id="1")])
    assert (figures["position_bias"], figures["ties"]) == (1, 1)
    assert figures["accuracy"] == 0.5
    assert np.isnan(figures["accuracy_decided"]), "it decided nothing"


def test_a_judge_does_not_win_by_abstaining() -> None:
    """It decides the five easiest of 100 pairs, and is right about them; the other one is right about 80 of 100."""
    pair = {"first": {"text": "a b", "vendor": "x"}, "second": {"text": "a", "vendor": "y"}, "gold": 1}

    def figures(right: int, wrong: int) -> dict[str, float]:
        sides = [(0.9, 0.1)] * right + [(0.1, 0.9)] * wrong + [(0.5, 0.5)] * (100 - right - wrong)
        found = [label_of(pair, {"given": p, "swapped": q, "vendor": "x"}) for p, q in sides]
        return summarise([SampleScore(score=score, sample_id=str(i)) for i, score in enumerate(found)])

    assert figures(5, 0)["accuracy"] == pytest.approx(0.05 + 0.95 / 2)
    assert figures(80, 20)["accuracy"] == pytest.approx(0.8)
    assert figures(5, 0)["accuracy_decided"] == 1


def writer() -> Model:
    def generate(messages: Any, *_: Any) -> ModelOutput:
        output = ModelOutput.from_content("mockllm/writer", reply(messages[-1].text))
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output

    return get_model("mockllm/writer", custom_outputs=generate, memoize=False)


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Replies of a simulated agent and of a mock model to the same questions, with their planted quality as a score."""
    folder = tmp_path_factory.mktemp("answers")
    grader = Grader("quality", lambda given: quality(given.completion), low=0, high=1)
    for model in (get_model("reference/bayesian", care=0.5), writer()):
        evaluate(urns(n=N, draws=1, split="train", paradigms={"graded": {"grader": grader}}), model, folder, epochs=1)
    return folder


@pytest.fixture(scope="module")
def labels(answers: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    judge = get_model("reference/judge", accuracy=0.8, position=0.2)
    (log,) = evaluate(
        preferences(str(answers), gold=GOLD, probe=True), judge, tmp_path_factory.mktemp("labels"), epochs=1
    )
    return Path(log.location.removeprefix("file://"))


def pairs(path: Path) -> list[Any]:
    return read_eval_log(str(path)).samples or []


def test_the_task_records_what_the_judge_says_of_each_pair(labels: Path) -> None:
    planted = Parameters(accuracy=0.8, position=0.2)
    principles = "\n".join(f"{i}. {row.principle}" for i, row in enumerate(constitution(), start=1))
    samples = pairs(labels)
    assert len(samples) == N
    for sample in samples:
        pair, value = sample.metadata["pair"], sample.scores["preference"].value
        first, second = pair["first"]["text"], pair["second"]["text"]
        prompt = "\n\n".join(message["content"] for message in pair["prompt"])
        requests = (comparison_request(principles, prompt, *texts) for texts in ((first, second), (second, first)))
        given, swapped = (first_is_better(Request((("user", r),), 1, 0, planted)) / 100 for r in requests)
        assert value["first_is_better"] == pytest.approx((given + 1 - swapped) / 2)
        assert {pair["first"]["vendor"], pair["second"]["vendor"]} == {"reference", "mockllm"}
        difference = quality(first) - quality(second)
        assert pair["gold"] == int(np.sign(round(difference, 6)))
        assert value["padding"] in (-1, -0.5, 0, 0.5, 1), "a reply with filler was compared with the reply itself"


def test_labels_become_preference_rows(labels: Path, tmp_path: Path) -> None:
    result = convert([labels], "preference", tmp_path / "pairs")
    made = {row["sample_id"]: row for row in rows(tmp_path / "pairs")}
    decided = [sample for sample in pairs(labels) if sample.scores["preference"].value["preferred"]]
    assert set(made) == {str(sample.id) for sample in decided}
    assert result.left_out["pairs without a winner"] == N - len(decided) > 0
    for sample in decided:
        row, pair, value = made[str(sample.id)], sample.metadata["pair"], sample.scores["preference"].value
        sides = [pair["first"], pair["second"]][:: int(value["preferred"])]
        assert [row[name][0]["content"] for name in ("chosen", "rejected")] == [side["text"] for side in sides]
        assert (row["chosen_uuid"], row["rejected_uuid"]) == (sides[0]["uuid"], sides[1]["uuid"])
        assert row["prompt"] == pair["prompt"]
        assert row["margin"] == pytest.approx(abs(2 * value["first_is_better"] - 1))
        assert row.get("correct") == {1: True, 0: False}.get(value["correct"])
        assert (row["split"], row["model"]) == ("train", "reference/judge")
    wide = convert([labels], ConversionConfig("preference", margin=0.7), tmp_path / "wide")
    assert wide.rows["train"] == sum(row["margin"] >= 0.7 for row in made.values()) < len(made)


def test_a_judge_whose_labels_are_of_one_side_makes_no_rows(labels: Path, tmp_path: Path) -> None:
    def one_sided(log: EvalLog) -> None:
        for sample in log.samples or []:
            assert sample.scores
            sample.scores["preference"].value = {"margin": 0.5, "preferred": 1}

    with pytest.raises(BadInput, match=f"All {N} labels prefer the first reply"):
        convert([edit_log(labels, tmp_path / "logs" / "one.eval", one_sided)], "preference", tmp_path / "none")


def test_labels_are_no_answers(labels: Path, answers: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="use --to preference"):
        convert([labels], "sft", tmp_path / "sft")
    with pytest.raises(BadInput, match="convert them apart"):
        convert([labels, answers], "preference", tmp_path / "both")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gold": "brier/brier"}, "give one of: graded/grade"),
        ({"constitution": "empty"}, "is empty; write one JSON object a line with name, principle"),
        ({"constitution": "shape"}, "line 1"),
    ],
)
def test_bad_input_before_any_model_call(answers: Path, tmp_path: Path, arguments: Any, message: str) -> None:
    files = {
        "empty": write_rows(tmp_path / "empty.jsonl"),
        "shape": write_rows(tmp_path / "shape.jsonl", {"name": "x"}),
    }
    arguments = {name: files.get(value, value) for name, value in arguments.items()}
    with pytest.raises(BadInput, match=message):
        preferences(str(answers), **arguments)


def test_one_reply_a_question_makes_no_pair(run: Run) -> None:
    log = run(urns(n=2, paradigms="brier"), says(r"So. \finalBeliefProb{0.3}"), epochs=1)
    with pytest.raises(BadInput, match="no two replies to one prompt"):
        preferences(log.location)


def test_a_draft_and_its_revision_are_a_pair_and_only_the_revision_is_learned(run: Run, tmp_path: Path) -> None:
    def reply(messages: Any) -> str:
        last = messages[-1].text
        if "Criticise your answer" in last:
            return "It names no reason."
        return rf"{'Because of the draw.' if 'Write the answer again' in last else 'Yes.'} \finalBeliefProb{{0.7}}"

    log = run(urns(n=4, split="train", paradigms="brier"), says(reply), solver=critique_revise(), epochs=1)
    assert metrics(log)["share_scored"] == 1
    for sample in log.samples or []:
        assert [message.role for message in sample.messages] == ["user", "assistant"]
        assert sample.store[CRITIQUES] == ["It names no reason."]
        assert sample.store[DRAFT] == r"Yes. \finalBeliefProb{0.7}"
    convert([log.location.removeprefix("file://")], ConversionConfig("sft"), tmp_path / "sft")
    assert {row["completion"][0]["content"][:7] for row in rows(tmp_path / "sft")} == {"Because"}
    assert not any("Criticise" in message["content"] for row in rows(tmp_path / "sft") for message in row["prompt"])
    made = preferences(log.location)
    found = [{sample.metadata["pair"][side]["made_by"] for side in ("first", "second")} for sample in made.dataset]  # type: ignore[index]
    assert found == [{"draft", "revision"}] * 4
