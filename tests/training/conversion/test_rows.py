"""What a conversion must never get wrong: which trajectories are compared, what a score is, and that counts add up."""

import os
from collections import defaultdict
from collections.abc import Callable
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.agent import react
from inspect_ai.log import read_eval_log, write_eval_log
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ModelOutput
from inspect_ai.scorer import Score
from inspect_ai.tool import ToolCall

from tests.fixtures import Run, says
from tests.training.conftest import look
from tests.training.converted import Edited, ask_urns, brier, edit_log, of_split, only, rows, scored_as, unscored
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import split_of
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.conversion.writer import DatasetFolder
from truthgym.training.convert import convert


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A chain of thought on 12 questions, twice each."""
    return ask_urns(tmp_path_factory.mktemp("logs"), n=12, solver=chain_of_thought(steps=1), epochs=2)


@pytest.fixture
def edited(log: Path, tmp_path: Path) -> Edited:
    """The log, changed by a function of its log."""
    return lambda change, name="edited.eval": edit_log(log, tmp_path / "logs" / name, change)


def test_steps_are_selected_by_a_score_on_request(edited: Edited, tmp_path: Path) -> None:
    def measured(eval_log: Any) -> None:
        stages = [("prior", 0.5), ("prior 2", 0.1), ("step 1", 0.6), ("posterior", 0.6)]
        beliefs = [{"elicitor": "self", "stage": stage, "value": value} for stage, value in stages]
        for sample in eval_log.samples:
            sample.scores["martingale"] = Score(value={"change": 0.1}, metadata={"beliefs": beliefs})

    log = edited(measured)
    train = sorted(map(brier, of_split(log, "train")))
    convert([log], "steps", tmp_path / "all")
    assert all(labels[1] for labels in (row["labels"] for row in rows(tmp_path / "all"))), "the last changes nothing"
    assert len(rows(tmp_path / "all")) == len(train), "a second wording of the prior is no step"
    convert([log], "steps", tmp_path / "top", Selection(top=0.5))
    assert sorted(row["score"] for row in rows(tmp_path / "top")) == train[: len(train) // 2]
    middle = train[len(train) // 2]
    convert([log], "steps", tmp_path / "below", Selection(threshold=middle))
    assert len(rows(tmp_path / "below")) == sum(score <= middle for score in train)


def test_answers_of_outside_agents_have_no_source_and_are_named(edited: Edited, tmp_path: Path) -> None:
    def outside(log: Any) -> None:
        for sample in log.samples:
            sample.store = {}
            for message in sample.messages:
                message.source = None if message.role == "assistant" else message.source

    def mend(log: Any) -> None:
        for sample in log.samples:
            sample.store = {}

    everything = Selection(everything=True)
    with pytest.raises(BadInput, match="answers with no `source`, as agents outside Inspect write them"):
        convert([edited(outside)], "sft", tmp_path / "sft", everything)
    convert([edited(outside)], "prompts", tmp_path / "prompts")
    assert {message["role"] for row in rows(tmp_path / "prompts") for message in row["prompt"]} <= {"system", "user"}
    assert convert([edited(mend)], "sft", tmp_path / "mended", everything).rows["train"] > 0


def test_the_name_of_a_split_cannot_write_to_the_terminal(edited: Edited, tmp_path: Path) -> None:
    def rename(log: Any) -> None:
        next(sample for sample in log.samples if sample.metadata["split"] == "train").metadata["split"] = "\x1b[2Jtrain"

    result = convert([edited(rename)], "sft", tmp_path / "d", Selection(top=1.0))
    assert all(reason.isprintable() for reason in result.left_out)
    assert sum("[2Jtrain" in reason for reason in result.left_out) == 1


def test_the_same_id_in_two_tasks_is_not_the_same_question(edited: Edited, tmp_path: Path) -> None:
    def numbered(task: str) -> Callable[[Any], None]:
        def change(log: Any) -> None:
            log.eval.task_id, log.eval.task = task, task
            ids: dict[object, int] = {}
            for sample in log.samples:
                sample.id = ids.setdefault(sample.id, len(ids) + 1)
                sample.uuid = f"{task} {sample.uuid}"
                sample.metadata["event"] = f"{task} {sample.id}"
                sample.metadata["split"] = split_of(sample.metadata["event"])
                sample.messages[0].content = f"{task}: {sample.messages[0].text}"

        return change

    logs = [edited(numbered(task), f"{task}.eval") for task in ("first", "second")]
    questions = sum(len({sample.id for sample in of_split(log, "train")}) for log in logs)
    assert convert(logs, "prompts", tmp_path / "prompts").rows["train"] == questions
    best = convert(logs, "sft", tmp_path / "best", Selection(best_per_question=True))
    assert best.rows["train"] == 2 * questions
    convert(logs, ConversionConfig("preference", pairs="all"), tmp_path / "pairs")
    assert all(row["rejected_uuid"].startswith(row["task"]) for row in rows(tmp_path / "pairs"))


def test_gt_validates_on_correct_samples_of_any_score(log: Path, tmp_path: Path) -> None:
    samples = of_split(log, "validation")
    right = {sample.uuid for sample in samples if brier(sample) < 0.25}
    cut = sorted(brier(sample) for sample in samples if sample.uuid in right)[0]
    for name, selection in (("d", Selection(threshold=cut)), ("all", Selection(everything=True))):
        result = convert([log], ConversionConfig("sft", validation="gt"), tmp_path / name, selection)
        assert {row["sample_uuid"] for row in rows(tmp_path / name, "validation")} == right
        taken = {row["sample_uuid"] for split in result.rows for row in rows(tmp_path / name, split)}
        assert result.samples == sum(result.left_out.values()) + len(taken)


def test_labels_have_one_limit_for_both_splits(log: Path, tmp_path: Path) -> None:
    samples = [sample for split in ("train", "validation") for sample in of_split(log, split)]
    limits = {"half": Selection(), "top": Selection(top=0.2), "threshold": Selection(threshold=0.05)}
    for name, selection in limits.items():
        convert([log], ConversionConfig("unpaired", validation="train"), tmp_path / name, selection)
        labelled = [row for split in ("train", "validation") for row in rows(tmp_path / name, split)]
        scores: dict[bool, list[float]] = defaultdict(list)
        for row in labelled:
            scores[row["label"]].append(row["score"])
        assert max(scores[True]) <= min(scores[False])
        assert {row["sample_uuid"] for row in labelled} == {sample.uuid for sample in samples}
        if name == "threshold":
            assert max(scores[True]) <= 0.05 < min(scores[False])


def test_no_training_rows_is_an_error(edited: Edited, tmp_path: Path) -> None:
    path = edited(only("validation"))
    for kind in ("sft", "unpaired", "preference"):
        with pytest.raises(BadInput, match="none of .* is left to convert"):
            convert([path], ConversionConfig(kind, validation="train"), tmp_path / "d")


def test_pairs_count_samples(edited: Edited, tmp_path: Path) -> None:
    def same(log: Any) -> None:
        """Of the first question both epochs say the same, and are scored differently."""
        both = [sample for sample in log.samples if sample.metadata["split"] == "train"]
        both = [sample for sample in both if sample.id == both[0].id]
        both[1].messages, both[1].store = both[0].messages, both[0].store
        for sample, score in zip(both, (0.1, 0.2), strict=True):
            sample.scores["brier"].value = {"brier_score": score}

    result = convert([edited(same)], "preference", tmp_path / "d")
    assert result.left_out["pairs with the same replies"] == 2
    assert result.samples == sum(result.left_out.values()) + 2 * result.rows["train"]


def test_the_scored_copy_of_a_log_counts(edited: Edited, log: Path, tmp_path: Path) -> None:
    first = edited(unscored)
    os.utime(first, (2**31 - 1, 2**31 - 1))  # copied about, it is the newest
    result = convert([first, log], "sft", tmp_path / "d", Selection(top=1.0))
    assert len({row["sample_uuid"] for row in rows(tmp_path / "d")}) == len(of_split(log, "train"))
    assert result.left_out["samples without a number for the score"] == len(of_split(log, "train"))


def test_unpaired_surrogates_are_replaced(tmp_path: Path) -> None:
    with DatasetFolder(tmp_path / "d") as folder:
        folder.write("train", {"prompt": [{"role": "user", "content": "a\ud83d b \U0001f600"}]})
        folder.finish({"kind": "sft"}, "d", "")
    assert rows(tmp_path / "d")[0]["prompt"][0]["content"] == "a\ufffd b \U0001f600"


def test_a_replaced_dataset_is_not_loaded_from_the_cache(log: Path, tmp_path: Path) -> None:
    """Datasets keeps what it has read by the folder's name, not by its place or the time of its files."""
    from datasets import load_dataset

    for folder, count in (("a/d", 2), ("a/d", 3), ("b/d", 4)):
        result = convert([log], "sft", tmp_path / folder, Selection(count=count), overwrite=True)
        loaded = load_dataset(str(tmp_path / folder), cache_dir=str(tmp_path / "cache"), split="train")
        assert list(loaded) == rows(result.out)


def test_a_prompt_asks_for_the_answer_that_is_rewarded(log: Path, tmp_path: Path) -> None:
    convert([log], "prompts", tmp_path / "d")
    prompts = rows(tmp_path / "d")
    assert len(prompts) == len({row["sample_id"] for row in prompts}) == len(of_split(log, "train")) // 2
    for row in prompts:
        (message,) = row["prompt"]
        assert message["role"] == "user"
        assert row["target"] in ("yes", "no")
        assert row["proposition"]
        assert row["posterior"]
        assert "finalBeliefProb" in message["content"]
        assert "Do not give a final answer yet" not in message["content"]
        assert all(piece in message["content"] for piece in row["evidence"])


def test_metadata_does_not_replace_reserved_columns(edited: Edited, tmp_path: Path) -> None:
    def foreign(log: Any) -> None:
        for sample in log.samples:
            sample.metadata |= {"prompt": "say yes", "tools": ["hammer"], "images": 3, "label": "easy", "limit": 5}

    from datasets import load_dataset

    convert([edited(foreign)], "prompts", tmp_path / "d")
    dataset = load_dataset(str(tmp_path / "d"), cache_dir=str(tmp_path / "cache"), split="train")
    assert all(row["prompt"][0]["role"] == "user" and row["label"] == "easy" for row in dataset)
    assert not {"tools", "images"} & set(dataset.column_names)


def test_openai_pairs_do_not_diverge_at_tool_calls(edited: Edited, tmp_path: Path) -> None:
    def calls(log: Any) -> None:
        for sample in log.samples:
            reply = next(message for message in sample.messages if message.role == "assistant")
            if sample.metadata["surface"] == log.samples[0].metadata["surface"]:
                reply.content = ""
                reply.tool_calls = [ToolCall(id="c", function="count", arguments={"epoch": sample.epoch})]

    result = convert([edited(calls)], ConversionConfig("openai", method="preference"), tmp_path / "d")
    assert result.left_out["pairs that diverge at a tool call, which OpenAI does not compare"]


@pytest.fixture
def tool_log(run: Run) -> Path:
    """An agent that calls a tool without a word, and then answers, twice for each question, with other call ids."""

    def reply(messages: list[ChatMessage]) -> ModelOutput | str:
        if messages[-1].role == "tool":
            return rf"It is known. \finalBeliefProb{{{next(beliefs)}}}"
        return ModelOutput.for_tool_call("mockllm/model", "look", {"at": "urn"}, content="")

    beliefs = cycle([0.2, 0.9, 0.6, 0.4, 0.7])
    agent = run_agent(react(prompt=None, tools=[look()], submit=False))
    task = urns(n=6, draws=2, split="train", paradigms="brier")
    return Path(run(task, says(reply), solver=agent, epochs=2).location)


def test_a_tool_call_that_could_not_be_parsed_is_not_trained_on(tool_log: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(tool_log))
    for sample in log.samples or []:
        reply = next(message for message in sample.messages if isinstance(message, ChatMessageAssistant))
        assert reply.tool_calls
        reply.tool_calls[0].parse_error = "not JSON"
    write_eval_log(log, str(tool_log))
    result = convert([tool_log], "sft", tmp_path / "sft", Selection(everything=True))
    assert not any("tool_calls" in row["completion"][0] for row in rows(tmp_path / "sft"))
    assert result.left_out["replies with a tool call that could not be parsed"] == len(log.samples or [])


def test_tool_calls_without_text_are_trained_on(tool_log: Path, tmp_path: Path) -> None:
    samples = read_eval_log(str(tool_log)).samples or []
    replies = sum(message.role == "assistant" for sample in samples for message in sample.messages)
    assert replies == 2 * len(samples)
    convert([tool_log], "sft", tmp_path / "sft", Selection(everything=True))
    result = rows(tmp_path / "sft")
    assert len(result) == replies
    called = [row["completion"][0]["tool_calls"] for row in result if "tool_calls" in row["completion"][0]]
    assert [call["function"] for (call,) in called] == [{"name": "look", "arguments": {"at": "urn"}}] * len(samples)
    told = {"role": "tool", "content": "red", "name": "look"}
    assert all(result[at]["prompt"][-1] == told | {"tool_call_id": called[at // 2][0]["id"]} for at in (1, 3))
    convert([tool_log], ConversionConfig("sft", form="messages"), tmp_path / "messages", Selection(everything=True))
    assert len(rows(tmp_path / "messages")) == len(samples)
    convert([tool_log], "prompts", tmp_path / "prompts")
    assert all(row["prompt"][-1]["role"] == "user" for row in rows(tmp_path / "prompts"))
    convert([tool_log], "preference", tmp_path / "d")
    for row in rows(tmp_path / "d"):
        assert row["prompt"][-1]["role"] == "tool"
        assert row["chosen"][0]["content"] != row["rejected"][0]["content"], "not in the ids of calls alone"


def test_an_edited_split_does_not_free_test_questions(edited: Edited, log: Path, tmp_path: Path) -> None:
    def edit(log: Any) -> None:
        for sample in log.samples:
            sample.metadata["split"] = "train"

    convert([edited(edit)], "sft", tmp_path / "d", Selection(everything=True))
    reserved = {sample.uuid for sample in of_split(log, "test")}
    assert reserved
    assert not reserved & {row["sample_uuid"] for row in rows(tmp_path / "d")}


@pytest.mark.parametrize("options", [None, {}, {"figures": "all"}])  # figures are metrics: the scores are the same
def test_the_newest_of_repeated_scores_counts(
    edited: Edited, log: Path, tmp_path: Path, options: dict[str, str] | None
) -> None:
    def rescore(eval_log: Any) -> None:
        eval_log.eval.scorers += [scorer.model_copy(update={"options": options}) for scorer in eval_log.eval.scorers]
        for sample in eval_log.samples:
            sample.scores["brier1"] = Score(value={"brier_score": 0.125})
            sample.messages[0].content = f"attention: {sample.messages[0].text}"  # begins like an attachment

    result = convert([edited(rescore), log], "sft", tmp_path / "d", Selection(top=1.0))
    assert {row["score"] for row in rows(tmp_path / "d")} == {0.125}
    assert sum(number for reason, number in result.left_out.items() if "but other content" in reason) == 1


def test_a_number_that_no_float_holds_is_one_error(edited: Edited, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"edited\.eval: its member samples/.* has a value that cannot be used"):
        convert([edited(scored_as(10**400))], "sft", tmp_path / "d")


def test_two_conversions_to_one_folder(log: Path, tmp_path: Path) -> None:
    first, second = DatasetFolder(tmp_path / "d"), DatasetFolder(tmp_path / "d")
    with first:
        with pytest.raises(BadInput, match="in use by another command"), second:
            pass
        first.write("train", {"a": 1})
        first.finish({"kind": "sft"}, "d", "")
    with pytest.raises(BadInput, match="already exists"), second:
        pass
    assert rows(tmp_path / "d") == [{"a": 1}]
    assert [path.name for path in tmp_path.iterdir()] == ["d"]


def test_a_link_is_overwritten_at_its_target(log: Path, tmp_path: Path) -> None:
    convert([log], "sft", tmp_path / "d", Selection(count=1))
    (tmp_path / "link").symlink_to(tmp_path / "d")
    for count in (2, 3):
        convert([log], "sft", tmp_path / "link", Selection(count=count), overwrite=True)
        assert len({row["sample_uuid"] for row in rows(tmp_path / "d")}) == count
    assert sorted(path.name for path in tmp_path.iterdir()) == ["d", "link"]


def test_a_full_disk_is_one_error(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = Path.open
    monkeypatch.setattr(Path, "open", lambda path, *a, **k: opened(Path("/dev/full") if path.name == "train.jsonl"
                                                                   else path, *a, **k))  # fmt: skip
    with pytest.raises(BadInput, match="No space left on device"):
        convert([log], "sft", tmp_path / "d", Selection(everything=True))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="cannot be written"):
        convert([log], "sft", tmp_path / "file" / "d")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    convert([log], "sft", ".")
    assert rows(tmp_path / "here")


@pytest.mark.parametrize("selection", [Selection(everything=True), Selection(score="brier_score", top=0.5)])
def test_rows_do_not_depend_on_when_samples_ended(
    log: Path, edited: Edited, tmp_path: Path, selection: Selection
) -> None:
    """A resumed evaluation finishes them in another order."""
    other = edited(lambda eval_log: eval_log.samples.reverse())
    trained = []
    for place, path in enumerate((log, other)):
        convert([str(path)], "sft", tmp_path / str(place), selection)
        trained.append([(row["sample_id"], row["epoch"], row["completion"]) for row in rows(tmp_path / str(place))])
    assert trained[0] == trained[1]
