"""Reward models, trained on pairs whose better reply is known, and read alone, as a scorer and as a reward."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser, get_model

from tests.fixtures import Run, metrics, samples, says, values, write_rows
from truthgym.datasets.errors import BadInput
from truthgym.models.reward_model import load, penalised, pool
from truthgym.models.reward_models.encoding import steps_of
from truthgym.scorers.reward_model import reward_model
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.reward_functions.resolve import resolve_rewards
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.train import reward

GOOD, BAD = "I drew {n} red balls, so about {n} percent.", "It is red, trust me."
STRANGE = "xq 0zk?! jjw ~ {n} ## vv"
TRAINED, HELD_OUT = range(10, 40), range(50, 70)


def pair(n: int) -> dict[str, Any]:
    replies = {name: [{"role": "assistant", "content": text.format(n=n)}] for name, text in
               (("chosen", GOOD), ("rejected", BAD))}  # fmt: skip
    return {"prompt": [{"role": "user", "content": f"Is urn {n} red?"}], **replies, "event": f"e{n // 2}"}


def asked(n: int, reply: str) -> list[ChatMessage]:
    return [ChatMessageUser(content=f"Is urn {n} red?"), ChatMessageAssistant(content=reply.format(n=n))]


def write(folder: Path, rows: list[dict[str, Any]]) -> str:
    folder.mkdir(parents=True)
    write_rows(folder / "train.jsonl", *rows)
    return str(folder)


FEW = {"per_device_train_batch_size": 8, "learning_rate": 1e-2, "disable_tqdm": True}


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two members of an ensemble, and a process model that has seen two steps."""
    root = tmp_path_factory.mktemp("reward")
    steps = [
        {"prompt": pair(n)["prompt"], "completions": ["It is red.", "No."], "labels": [True, False]} for n in TRAINED
    ]
    pairs, labelled = write(root / "pairs", [pair(n) for n in TRAINED]), write(root / "steps", steps)
    few = FEW | {"model_name_or_path": str(base), "output_dir": str(root / "trained"), "max_steps": 10}
    members = [reward(few | {"dataset_name": pairs, "seed": seed, "bootstrap": True}) for seed in (1, 2)]
    return [*members, reward(few | {"dataset_name": labelled})]


def test_pairs_that_it_never_saw_are_in_order(trained: list[Path]) -> None:
    model = load(trained[0])
    chosen, rejected = (model.score([asked(n, reply) for n in HELD_OUT]) for reply in (GOOD, BAD))
    assert np.mean(np.array(chosen) > rejected) == 1
    assert abs(np.mean([*chosen, *rejected])) < 0.5, "relative to the mean of the training replies"


def test_members_disagree_about_replies_unlike_their_training_data(trained: list[Path]) -> None:
    model = load(trained[:2], penalty=1)
    spread = {text: np.mean([r.spread for r in model.read([asked(n, text) for n in HELD_OUT])])
              for text in (GOOD, STRANGE)}  # fmt: skip
    assert spread[STRANGE] > 3 * spread[GOOD]
    apart = np.array([load(folder).score([asked(50, STRANGE)]) for folder in trained[:2]])
    assert model.score([asked(50, STRANGE)])[0] == pytest.approx(apart.mean() - apart.std(ddof=1), abs=1e-5)


def test_a_reward_does_not_depend_on_its_batch(trained: list[Path]) -> None:
    replies = [GOOD, BAD, STRANGE * 20]
    model = load(trained[0])
    together = model.score([asked(5, reply) for reply in replies])
    assert together == pytest.approx([model.score([asked(5, reply)])[0] for reply in replies], abs=1e-5)


def test_mean_minus_lambda_times_deviation_under_a_ceiling() -> None:
    members = np.array([[1.0, 4.0], [3.0, 4.0]])
    rewards, spread = penalised(members, penalty=0.5)
    assert spread == pytest.approx([2**0.5, 0])
    assert rewards == pytest.approx([2 - 0.5 * 2**0.5, 4])
    assert penalised(members, penalty=0.5, ceiling=3)[0] == pytest.approx([2 - 0.5 * 2**0.5, 3])
    assert np.isnan(penalised(members[:1])[1]).all()


def test_what_does_not_fit_is_left_out_at_the_beginning(trained: list[Path]) -> None:
    turns = [message for n in range(400) for message in asked(n, GOOD)]
    whole, last = load(trained[0]), load(trained[0], turns="last")
    reading = whole.read([turns])[0]
    assert reading.left_out > 0
    assert last.read([turns])[0].left_out == 0
    assert last.score([turns]) == pytest.approx(last.score([turns[-2:]]))
    # what comes before the last 4096 tokens changes nothing
    assert whole.score([[*asked(7, BAD), *turns]]) == pytest.approx([reading.reward], abs=1e-5)


def test_a_process_model_reads_each_step(trained: list[Path]) -> None:
    conversation = [*asked(50, "It is red."), ChatMessageAssistant(content="No.")]
    reading = load(trained[2]).read([conversation])[0]
    assert reading.steps[0] > 0.5 > reading.steps[1]
    assert reading.reward == min(reading.steps)
    assert load(trained[2], pooling="product").score([conversation]) == pytest.approx([np.prod(reading.steps)])
    lines = asked(50, "It is red.\n\nNo.")
    assert load(trained[2], split="lines").score([lines]) == pytest.approx([reading.reward], abs=1e-5)
    assert pool([0.2, 0.8], "mean") == 0.5
    examples = [*asked(1, "An example."), *conversation]
    assert steps_of(examples, 2) == (examples[:3], ["It is red.", "No."])


def test_the_scorer_serves_eval_reward_and_convert(
    trained: list[Path], run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from truthgym.models import reward_model as module

    batches: list[int] = []
    read = module.Member.read

    def count(self: module.Member, rows: Any) -> Any:
        batches.append(len(rows))
        return read(self, rows)

    monkeypatch.setattr(module.Member, "read", count)
    replies = iter([GOOD, BAD, " "] * 2)
    arguments = {"folder": [str(path) for path in trained[:2]], "penalty": 0.5}
    task = urns(n=2, split="train", paradigms={"reward_model": arguments})
    log = run(task, says(lambda _: next(replies)), epochs=3)
    scores = [sample.scores["reward_model"] for sample in log.samples or [] if sample.scores]
    values = np.array([score.value["reward"] for score in scores])  # type: ignore[index, call-overload]
    assert np.isnan(values).sum() == 2
    assert {score.metadata["reason"] for score in scores if score.metadata} > {None}
    assert sum(batches) == 8, "four answers by two members"
    assert len(batches) < 8
    assert metrics(log)["reward"] == pytest.approx(np.nanmean(values))
    assert metrics(log)["share_scored"] == pytest.approx(4 / 6)

    # as a reward, an answer without a score gets the lowest of its batch
    (as_reward,) = resolve_rewards(["reward_model"], {"urns": ["reward_model"]})
    rollouts = [Rollout("urns", str(i), 1, "", "yes", scores={"reward_model": score}) for i, score in enumerate(scores)]
    assert as_reward(rollouts) == pytest.approx(np.nan_to_num(values, nan=np.nanmin(values)).tolist())

    rows = convert([log.location], "sft", tmp_path / "data", Selection("reward_model/reward", best_per_question=True))
    assert rows.rows == {"train": 2}


def test_folders_that_hold_no_usable_reward_model(trained: list[Path], base: Path, tmp_path: Path) -> None:
    other = shutil.copytree(trained[0], tmp_path / "other")
    words = json.loads((other / "tokenizer.json").read_text())
    vocabulary = words["model"]["vocab"]
    first, second = list(vocabulary)[:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (other / "tokenizer.json").write_text(json.dumps(words))
    plain = shutil.copytree(trained[0], tmp_path / "plain")
    config = json.loads((plain / "config.json").read_text())
    (plain / "config.json").write_text(json.dumps({k: v for k, v in config.items() if k != "truthgym"}))
    cases: list[tuple[dict[str, Any], str]] = [
        ({"folder": tmp_path / "none"}, "none has no config.json"),
        ({"folder": str(tmp_path / "x-*")}, "no folder with a model matches"),
        ({"folder": base}, "ForCausalLM, and a reward model is a sequence classifier"),
        ({"folder": other}, "of another base, since it is not the one"),
        ({"folder": [trained[0], trained[2]]}, "models of one kind"),
        ({"folder": [trained[0], plain]}, "plain does not say what an average reply scores"),
        ({"folder": trained[0], "penalty": 1.0}, "no effect on a single model"),
        ({"folder": trained[:2], "penalty": -1.0}, "penalty=-1.0"),
        ({"folder": trained[2], "pooling": "max"}, "pooling='max'"),
    ]
    with pytest.raises(BadInput, match="folder is empty.*truthgym train reward"):
        reward_model()
    for arguments, words_of_error in cases:
        with pytest.raises(BadInput, match=words_of_error.replace("*", "")):
            load(**arguments)


def test_a_rubric_regression_keeps_its_criteria_apart(base: Path, tmp_path: Path) -> None:
    rows = [
        {"prompt": pair(n)["prompt"], "completion": pair(n)[name],
         "scores": {"rubric/counts": good, "rubric/bold": 1 - good}}
        for n in TRAINED for name, good in (("chosen", 0.9), ("rejected", 0.1))
    ]  # fmt: skip
    unread = rows[-1] | {"scores": {"rubric/counts": 0.5, "brier/brier_score": 0.2}}  # of the criterion `bold`
    options = FEW | {"model_name_or_path": str(base), "output_dir": str(tmp_path / "trained"), "max_steps": 12}
    options |= {"dataset_name": write(tmp_path / "data", [*rows, unread]), "criteria": ["rubric/counts", "rubric/bold"]}
    write_rows(tmp_path / "data" / "validation.jsonl", *rows[:4], unread)
    folder = reward(options)
    assert folder.name.startswith("tiny-rubric_reward-")
    assert "2 rows without a number for a criterion were left out" in (folder / "README.md").read_text()
    good, bad = load(folder).read([asked(60, GOOD), asked(60, BAD)])
    assert good.criteria[0] - good.criteria[1] > 0.3 > -0.3 > bad.criteria[0] - bad.criteria[1]
    assert good.reward == pytest.approx(np.mean(good.criteria))
    assert re.search("rubric/counts (0.9|1.0)", (folder / "README.md").read_text()), "the share of variance explained"
    with pytest.raises(BadInput, match="has no number in any row; name others with --criteria: rubric/bold"):
        reward(options | {"criteria": ["rubric/depth"]})
    with pytest.raises(BadInput, match="--criteria brier/brier_score: lower is better"):
        reward(options | {"criteria": ["brier/brier_score"]})
    with pytest.raises(BadInput, match="name those to learn with --criteria"):
        reward(options | {"criteria": []})


def test_the_criteria_of_a_rubric_become_rows_and_a_reward_model(base: Path, tmp_path: Path, run: Run) -> None:
    """Log, rows and model, each from the files of the step before."""
    roles = {"judge": get_model("reference/judge", noise=0.2)}
    task = urns(n=24, paradigms={"rubric": {"rubric": "assistant", "cache": False}})
    log = run(task, get_model("reference/bayesian", care=0.5), model_roles=roles, epochs=1)
    graded = values(samples(log)[0], "rubric")
    criteria = [f"rubric/{name}" for name in graded if name != "rubric_score"]
    assert criteria == [f"rubric/{name}" for name in ("helpful", "honest", "harmless", "concise", "specific")]
    convert([log.location], ConversionConfig("sft"), tmp_path / "rows", Selection(everything=True))
    options = FEW | {"model_name_or_path": str(base), "output_dir": str(tmp_path / "trained"), "max_steps": 2}
    folder = reward(options | {"dataset_name": str(tmp_path / "rows"), "criteria": criteria})
    model = load(folder)
    (reading,) = model.read([asked(60, GOOD)])
    assert np.isfinite(reading.criteria).all()
    assert len(reading.criteria) == 5
