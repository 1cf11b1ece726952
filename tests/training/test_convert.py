"""From logs of real runs to datasets: what is chosen, what is left out, and that everything reads it."""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalError, EvalSampleLimit, ProvenanceData
from inspect_ai.model import ContentImage, ContentText
from inspect_ai.scorer import Score

from tests.training.converted import Edited, ask_urns, brier, edit_log, of_split, only, rows, scored_as, unscored
from truthgym.datasets.errors import BadInput
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.examples import read_examples
from truthgym.solvers.few_shot import few_shot
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.files import card_metadata


@pytest.fixture(scope="module")
def steps_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Beliefs after every step of a chain of thought."""
    by_step = {"martingale": {"per": "step"}, "brier": {}}
    return ask_urns(tmp_path_factory.mktemp("steps"), paradigms=by_step, solver=chain_of_thought(steps=2), epochs=1)


@pytest.fixture
def edited(direct_log: Path, tmp_path: Path) -> Edited:
    """The log of the direct run, changed by a function of its log, under another name."""
    return lambda change, name="edited.eval": edit_log(direct_log, tmp_path / "logs" / name, change)


def test_the_top_share_by_brier_score_is_the_lowest(direct_log: Path, tmp_path: Path) -> None:
    result = convert([direct_log], "sft", tmp_path / "d", Selection(top=0.25))
    train = of_split(direct_log, "train")
    expected = sorted(brier(sample) for sample in train)[: len(train) // 4]
    chosen = rows(tmp_path / "d")
    assert sorted(row["score"] for row in chosen) == expected
    assert result.left_out["questions of the test split, which are reserved for evaluation"] == len(
        of_split(direct_log, "test")
    )
    assert result.samples == 120 == sum(result.left_out.values()) + result.rows["train"]
    by_uuid = {sample.uuid: sample for sample in train}
    for row in chosen:
        sample = by_uuid[row["sample_uuid"]]
        assert (row["sample_id"], row["epoch"], row["event"]) == (sample.id, sample.epoch, sample.metadata["event"])
        assert row["prompt"] == [{"role": m.role, "content": m.text} for m in sample.messages[:-1]]
        assert row["completion"] == [{"role": "assistant", "content": sample.messages[-1].text}]
        assert (row["model"], row["solver"], row["split"]) == ("reference/bayesian", "truthgym/direct", "train")


def test_threshold_side_and_best_of_each_question(direct_log: Path, tmp_path: Path) -> None:
    train = of_split(direct_log, "train")
    convert([direct_log], "sft", tmp_path / "a", Selection(threshold=0.1))
    assert len(rows(tmp_path / "a")) == sum(brier(sample) <= 0.1 for sample in train)
    convert([direct_log], "sft", tmp_path / "b", Selection(aligned=True))
    assert len(rows(tmp_path / "b")) == sum(brier(sample) < 0.25 for sample in train)
    convert([direct_log], "sft", tmp_path / "c", Selection(best_per_question=True))
    best: dict[object, float] = {}
    for sample in train:
        best[sample.id] = min(best.get(sample.id, 1.0), brier(sample))
    assert {row["sample_id"]: row["score"] for row in rows(tmp_path / "c")} == best
    for name, score in (("d", "brier/spherical_score"), ("e", "brier_score")):  # of the one the highest is better
        convert([direct_log], "sft", tmp_path / name, Selection(score=score, count=5))
    assert {row["sample_uuid"] for row in rows(tmp_path / "d")} == {row["sample_uuid"] for row in rows(tmp_path / "e")}


def test_ties_are_broken_by_the_seed(edited: Edited, tmp_path: Path) -> None:
    log = edited(scored_as(0.1))
    for name, seed in (("a", 0), ("b", 1), ("c", 0)):
        convert([log], "sft", tmp_path / name, Selection(count=10, seed=seed))
    chosen = {name: {row["sample_uuid"] for row in rows(tmp_path / name)} for name in "abc"}
    assert chosen["a"] == chosen["c"] != chosen["b"]


def test_unusable_samples_are_counted(edited: Edited, tmp_path: Path) -> None:
    def spoil(log: Any) -> None:
        for sample in log.samples:  # a score that does not stand in for the default one
            sample.scores["graded"] = Score(value={"grade": 2.0}, metadata={"higher_is_better": True})
        first = [sample for sample in log.samples if sample.metadata["split"] == "train"]
        first[0].error = EvalError(message="broke", traceback="", traceback_ansi="")
        first[1].limit = EvalSampleLimit(type="token", limit=10)
        first[2].invalidation = ProvenanceData(author="us", reason="a test")
        first[3].output.choices[0].stop_reason = "max_tokens"
        first[4].store["Trajectory:ended"] = "The model refused."
        first[5].scores["brier"].value = {"brier_score": float("nan")}
        first[6].metadata["arm"] = "user"

    result = convert([edited(spoil)], "sft", tmp_path / "d", Selection(top=1.0))
    for reason in (
        "samples that failed with an error",
        "samples that a limit cut short",
        "samples that were invalidated",
        "samples whose answer was cut off (max_tokens)",
        "samples whose reasoning ended before its answer",
        "samples without a number for the score",
        "samples that were told an opinion",
    ):
        assert result.left_out[reason] == 1, reason
    assert all(row["score"] <= 1 for row in rows(tmp_path / "d"))
    everything = convert([edited(spoil)], "sft", tmp_path / "all", Selection(everything=True))
    every = rows(tmp_path / "all")
    assert everything.rows["train"] == len(every) == result.rows["train"] + 7
    assert sum("error" in row for row in every) == 2
    assert sum(row["truncated"] for row in every) == 2
    assert sum(row["invalidated"] for row in every) == 1
    assert sum(row.get("arm") == "user" for row in every) == 1
    assert sum("brier/brier_score" not in row["scores"] for row in every) == 1


def test_retries_shards_and_copies_count_once(direct_log: Path, edited: Edited, tmp_path: Path) -> None:
    def crashed(log: Any) -> None:
        log.status = "error"
        log.samples = log.samples[:30]

    def shard(log: Any) -> None:
        log.samples = log.samples[:60]

    logs = tmp_path / "logs"
    logs.mkdir()
    shutil.copy(direct_log, logs / "whole.eval")
    shutil.copy(direct_log, logs / "copy.eval")
    edited(crashed, "crashed.eval")
    edited(shard, "shard.eval")
    (logs / "whole.shards" / "1").mkdir(parents=True)
    (logs / "shard.eval").rename(logs / "whole.shards" / "1" / "shard.eval")
    result = convert([logs], "sft", tmp_path / "d", Selection(everything=True))
    assert (
        result.rows["train"] == len(of_split(direct_log, "train")) == len({r["sample_uuid"] for r in rows(result.out)})
    )
    assert result.left_out["logs of runs that another log here completes"] == 1
    assert result.left_out["samples that another log also holds"] == 120
    (logs / "whole.eval").unlink()
    (logs / "copy.eval").unlink()
    shutil.rmtree(logs / "whole.shards")
    with pytest.raises(BadInput, match=r"None of the 1 logs .* finished run \(1 error\).*--unfinished"):
        convert([logs], "sft", tmp_path / "e")
    assert convert([logs], "sft", tmp_path / "e", Selection(everything=True), unfinished=True).samples == 30


def test_a_log_that_was_never_scored(edited: Edited, tmp_path: Path) -> None:
    log = edited(unscored)
    with pytest.raises(BadInput, match=r"Scores in the logs: none.* --all"):
        convert([log], "sft", tmp_path / "d")
    assert not (tmp_path / "d").exists()
    assert convert([log], "sft", tmp_path / "d", Selection(everything=True)).rows["train"] > 30
    assert convert([log], "prompts", tmp_path / "p").rows["train"] > 3, "prompts need no score"


def test_validation_is_held_out_by_event(direct_log: Path, edited: Edited, tmp_path: Path) -> None:
    convert([direct_log], ConversionConfig("sft", validation="train"), tmp_path / "own", Selection(top=1.0))
    assert {row["split"] for row in rows(tmp_path / "own")} == {"train"}
    assert {row["split"] for row in rows(tmp_path / "own", "validation")} == {"validation"}

    convert([edited(only("train"))], ConversionConfig("sft", validation="train"), tmp_path / "part", Selection(top=1.0))
    train, others = rows(tmp_path / "part"), rows(tmp_path / "part", "validation")
    assert others
    assert not {row["event"] for row in train} & {row["event"] for row in others}


def test_pairs_of_epochs_of_solvers_and_of_models(direct_log: Path, steps_log: Path, tmp_path: Path) -> None:
    convert([direct_log], "preference", tmp_path / "epoch")
    best: dict[str, list[float]] = {}
    for sample in of_split(direct_log, "train"):
        best.setdefault(str(sample.id), []).append(brier(sample))
    pairs = rows(tmp_path / "epoch")
    wide = {name: max(scores) - min(scores) for name, scores in best.items() if max(scores) > min(scores)}
    assert {row["sample_id"]: row["margin"] for row in pairs} == pytest.approx(wide)
    for row in pairs:
        assert row["score"] == min(best[row["sample_id"]])
        assert row["chosen"] != row["rejected"]
    several = convert([direct_log], ConversionConfig("preference", pairs="all", margin=0.05), tmp_path / "all")
    assert min(row["margin"] for row in rows(several.out)) >= 0.05
    assert several.rows["train"] > sum(margin >= 0.05 for margin in wide.values())

    convert([direct_log, steps_log], ConversionConfig("preference", pair_by="solver"), tmp_path / "solver")
    for row in rows(tmp_path / "solver"):
        assert row["solver"] != row["rejected_solver"]
        assert len(row["prompt"]) == 1
        assert "finalBeliefProb{p}" in row["prompt"][0]["content"]
        assert "finalBeliefProb" in row["chosen"][0]["content"]
        assert "finalBeliefProb" in row["rejected"][0]["content"]

    other = ask_urns(tmp_path / "other", model="reference/random", model_args={}, epochs=1)
    convert([direct_log, other], ConversionConfig("preference", pair_by="model"), tmp_path / "model")
    assert all({r["model"], r["rejected_model"]} == {"reference/bayesian", "reference/random"}
               for r in rows(tmp_path / "model"))  # fmt: skip
    with pytest.raises(BadInput, match="none of .* is left to convert"):
        convert([direct_log], ConversionConfig("preference", pair_by="model"), tmp_path / "none")


def test_steps_are_labelled_by_their_change_of_belief(steps_log: Path, tmp_path: Path) -> None:
    convert([steps_log], "steps", tmp_path / "d")
    by_uuid = {sample.uuid: sample for sample in of_split(steps_log, "train")}
    labelled = rows(tmp_path / "d")
    assert len(labelled) == len(by_uuid)
    for row in labelled:
        sample = by_uuid[row["sample_uuid"]]
        beliefs = (sample.scores["martingale"].metadata or {})["beliefs"]
        outcome = 1.0 if sample.target == "yes" else 0.0
        errors = [(belief["value"] - outcome) ** 2 for belief in beliefs]
        assert row["labels"] == [errors[k + 1] <= errors[k] for k in range(3)]
        assert sum(row["step_scores"]) == pytest.approx(errors[0] - errors[-1], abs=1e-5)
        # What was told between two steps is in the second: nothing of the conversation is lost.
        text = "\n\n".join([row["prompt"][0]["content"], *row["completions"]])
        assert text == "\n\n".join(message.text for message in sample.messages)


def test_every_reply_is_a_row(steps_log: Path, tmp_path: Path) -> None:
    convert([steps_log], "sft", tmp_path / "d", Selection(count=1))
    replies = rows(tmp_path / "d")
    assert [len(row["prompt"]) for row in replies] == [1, 3, 5]
    assert replies[2]["prompt"][:3] == [*replies[0]["prompt"], *replies[0]["completion"], replies[1]["prompt"][2]]
    convert([steps_log], ConversionConfig("sft", form="messages"), tmp_path / "m", Selection(count=1))
    assert rows(tmp_path / "m")[0]["messages"] == [*replies[2]["prompt"], *replies[2]["completion"]]


def test_untrainable_messages_are_context(tmp_path: Path, direct_log: Path) -> None:
    log = ask_urns(tmp_path / "logs", solver=few_shot(str(direct_log), count=2), epochs=1)
    convert([log], "sft", tmp_path / "d", Selection(count=2))
    for row in rows(tmp_path / "d"):
        assert [m["role"] for m in row["prompt"]].count("assistant") == 2
    with pytest.raises(BadInput, match="replies that are not trainable"):
        convert([log], ConversionConfig("sft", form="messages"), tmp_path / "m", Selection(count=2))


def test_examples_are_read_by_few_shot(direct_log: Path, tmp_path: Path) -> None:
    convert([direct_log], "few_shot", tmp_path / "d", Selection(count=4))
    examples = read_examples(str(tmp_path / "d" / "train.jsonl"), "brier_score")
    of_the_log = read_examples(str(direct_log), "brier_score")
    assert len(examples) == 4
    assert [example.score for example in examples] == sorted(example.score for example in examples)
    assert all(example in of_the_log for example in examples)


def test_rows_for_openai(direct_log: Path, tmp_path: Path) -> None:
    convert([direct_log], "openai", tmp_path / "s", Selection(count=3))
    assert all(set(row) == {"messages"} and row["messages"][-1]["role"] == "assistant" for row in rows(tmp_path / "s"))
    convert([direct_log], ConversionConfig("openai", method="preference"), tmp_path / "p")
    assert set(rows(tmp_path / "p")[0]) == {"input", "preferred_output", "non_preferred_output"}
    convert([direct_log], ConversionConfig("openai", method="reinforcement"), tmp_path / "r")
    assert {"messages", "target", "proposition"} <= set(rows(tmp_path / "r")[0])
    assert json.loads((tmp_path / "r" / "grader.json").read_text())["type"] == "python"


@pytest.mark.parametrize("file_format", ["jsonl", "parquet", "arrow"])
def test_load_dataset_reads_the_folder(direct_log: Path, tmp_path: Path, file_format: Any) -> None:
    from datasets import load_dataset

    settings = ConversionConfig("sft", validation="train", file_format=file_format)
    convert([direct_log], settings, tmp_path / "d", Selection(top=0.5))
    convert([direct_log], ConversionConfig("sft", validation="train"), tmp_path / "j", Selection(top=0.5))
    loaded = load_dataset(str(tmp_path / "d"), cache_dir=str(tmp_path / "cache"))
    assert set(loaded) == {"train", "validation"}
    assert list(loaded["train"]) == rows(tmp_path / "j")
    assert [path.name for path in (tmp_path / "d").iterdir() if path.is_dir()] == [".lineage"]


def test_the_card_says_what_was_done(direct_log: Path, tmp_path: Path) -> None:
    convert([direct_log], "sft", tmp_path / "d", Selection(top=0.2))
    facts = card_metadata(tmp_path / "d")
    assert facts["kind"] == "sft"
    assert facts["rows"] == {"train": len(rows(tmp_path / "d"))}
    assert facts["selection"] == {"top": 0.2, "splits": ["train"], "score": "brier/brier_score", "best": "lowest"}
    assert facts["logs"][0]["sha256"] == sha256(direct_log.read_bytes()).hexdigest()
    assert sum(facts["left_out"].values()) + facts["rows"]["train"] == facts["samples"] == 120
    assert "begin with a notice that they are simulated" in (tmp_path / "d" / "README.md").read_text()


def test_images_have_their_own_column(edited: Edited, tmp_path: Path) -> None:
    from datasets import load_dataset

    pixel = (
        "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5E"
        "rkJggg=="
    )

    def show(log: Any) -> None:
        for sample in log.samples:
            sample.messages[0].content = [ContentImage(image=pixel), ContentText(text=sample.messages[0].text)]

    log = edited(show)
    with pytest.raises(BadInput, match="--file-format parquet"):
        convert([log], "sft", tmp_path / "d")
    assert not (tmp_path / "d").exists()
    convert([log], ConversionConfig("sft", file_format="parquet"), tmp_path / "d", Selection(count=2))
    row = load_dataset(str(tmp_path / "d"), cache_dir=str(tmp_path / "cache"))["train"][0]
    assert row["images"][0].size == (1, 1)
    assert [block["type"] for block in row["prompt"][0]["content"]] == ["image", "text"]
    convert([log], "openai", tmp_path / "o", Selection(count=2))
    blocks = rows(tmp_path / "o")[0]["messages"][0]["content"]
    assert blocks[0]["image_url"]["url"] == pixel
