"""Models that think before they reply, from the log to the tokens that are trained."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, Literal

import pytest
from inspect_ai.model import ChatMessage, ContentReasoning, ModelOutput

from tests.fixtures import Run, says, thinks, write_rows
from tests.training.converted import Rows, rows
from truthgym.datasets.errors import BadInput
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.trainers.dataset import check_template, empty_thoughts, load_data

ANSWER = r"So few. \finalBeliefProb{0.2}"
Converted = Callable[..., Rows]


def template(name: str) -> str:
    import trl

    return (Path(trl.__path__[0]) / "chat_templates" / f"{name}.jinja").read_text()


@pytest.fixture
def converted(run: Run, tmp_path: Path) -> Converted:
    """Convert the log of a model that thinks in its text or in reasoning content, or whose first thought is hidden."""

    def make(thought_in: Literal["text", "content", "cut off", "redacted"], to: Any = "sft", **config: Any) -> Rows:
        def reply(messages: list[ChatMessage]) -> str | ModelOutput:
            thought = f"{len(messages)} messages."
            text = ANSWER if "finalBeliefProb" in messages[-1].text else "I see."
            if thought_in in ("content", "redacted"):
                hidden = thought_in == "redacted" and text == "I see."
                return thinks(text, ContentReasoning(reasoning=thought, redacted=hidden))
            end = "" if thought_in == "cut off" and text == "I see." else f"\n</think>\n\n{text}"
            return f"<think>\n{thought}{end}"

        task = urns(n=2, split="train", paradigms="brier")
        log = run(task, says(reply), solver=chain_of_thought(1), epochs=1)
        folder = tmp_path / f"{thought_in} {to} {config}"
        convert([Path(log.location)], ConversionConfig(to, **config), folder, Selection(top=1.0))
        return rows(folder)

    return make


@pytest.mark.parametrize("reasoning", ["keep", "drop", "only"])
def test_a_written_thought_is_trained_on_like_reasoning_content(converted: Converted, reasoning: str) -> None:
    written, separate = (converted(form, reasoning=reasoning) for form in ("text", "content"))
    assert len(written) == len(separate) == 4
    for row, other in zip(written, separate, strict=True):
        assert row["completion"] == other["completion"]
        assert row["chat_template_kwargs"] == other["chat_template_kwargs"] == {"enable_thinking": reasoning == "keep"}
    contents = [row["completion"][0]["content"] for row in written[:2]]
    assert (
        contents
        == {
            "keep": ["<think>\n1 messages.\n</think>\n\nI see.", f"<think>\n3 messages.\n</think>\n\n{ANSWER}"],
            "drop": ["I see.", ANSWER],
            "only": ["1 messages.", "3 messages."],
        }[reasoning]
    )
    assert written[1]["prompt"][1]["content"] == "<think>\n1 messages.\n</think>\n\nI see.", "as the model wrote it"


@pytest.mark.parametrize("reasoning", ["keep", "drop", "only"])
@pytest.mark.parametrize("thought_in", ["cut off", "redacted"])
def test_a_thought_that_was_cut_off_or_redacted_is_not_trained_on(
    converted: Converted, thought_in: Literal["cut off", "redacted"], reasoning: str
) -> None:
    contents = [row["completion"][0]["content"] for row in converted(thought_in, reasoning=reasoning)]
    assert len(contents) == (4 if thought_in == "redacted" and reasoning != "only" else 2)
    assert not any("1 messages." in content for content in contents)


def test_examples_have_no_thoughts(converted: Converted) -> None:
    assert "messages." not in str([row["messages"] for row in converted("text", "few_shot")])


TEMPLATES = ["qwen3", "qwen3_5_think", "qwen3_5_nothink", "qwen3_6", "glm4moe", "nemotron_3_nano"]


@pytest.mark.parametrize("name", TEMPLATES)
@pytest.mark.parametrize("reasoning", ["keep", "drop"])
def test_the_loss_covers_the_thought_and_the_reply(
    converted: Converted, tokenizer: Any, tmp_path: Path, name: str, reasoning: str
) -> None:
    """And nothing else: no thought of an earlier turn, and no empty one, which the template writes into the prompt."""
    converted("text", reasoning=reasoning)
    [folder] = [path.parent for path in tmp_path.rglob("train.jsonl")]
    data, own = load_data("sft", str(folder)), deepcopy(tokenizer)
    own.chat_template = template(name)
    check_template(data, own)
    for row in data.train:
        options = row["chat_template_kwargs"] | {"tokenize": False}
        prompt = own.apply_chat_template(row["prompt"], add_generation_prompt=True, **options)
        learned = own.apply_chat_template([*row["prompt"], *row["completion"]], **options).removeprefix(prompt)
        content = row["completion"][0]["content"]
        reply, thought = content.split("</think>")[-1].strip(), f"{len(row['prompt'])} messages."
        assert "1 messages." not in prompt, "the sampled context did not have it either"
        assert learned.count("think>") <= 2
        assert (thought in learned) == (reasoning == "keep")
        assert reply in learned
        assert ("think>" in learned) == (reasoning == "keep")


def test_a_template_that_trains_something_else_is_refused(converted: Converted, tokenizer: Any, tmp_path: Path) -> None:
    converted("text", reasoning="keep")
    [folder] = [path.parent for path in tmp_path.rglob("train.jsonl")]
    own = deepcopy(tokenizer)
    own.chat_template = template("deepseek_r1_distill")
    with pytest.raises(BadInput, match="does not go on from there to the reply of row 0"):
        check_template(load_data("sft", str(folder)), own)
    own.chat_template = own.chat_template.replace("<think>\\n", "")
    with pytest.raises(BadInput, match="drops the thought of the reply in row 0"):
        check_template(load_data("sft", str(folder)), own)


def test_whole_conversations_with_empty_thoughts_are_found(
    converted: Converted, tokenizer: Any, tmp_path: Path
) -> None:
    own = deepcopy(tokenizer)
    own.chat_template = template("qwen3")
    converted("text", form="messages", reasoning="keep")
    [folder] = [path.parent for path in tmp_path.rglob("train.jsonl")]
    data = load_data("sft", str(folder))
    assert not empty_thoughts(data, own)
    plain = (folder / "train.jsonl").read_text().replace("<think>\\n", "").replace("\\n</think>\\n\\n", "")
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "train.jsonl").write_text(plain)
    data = load_data("sft", str(tmp_path / "plain"))
    assert empty_thoughts(data, own)
    assert not empty_thoughts(data, tokenizer)
    say = {"prompt": [{"role": "user", "content": "?"}], "completion": [{"role": "assistant", "content": "Yes."}]}
    for thinking in (None, True, False):
        (row := tmp_path / f"{thinking}").mkdir()
        write_rows(
            row / "train.jsonl",
            say | ({} if thinking is None else {"chat_template_kwargs": {"enable_thinking": thinking}}),
        )
        assert empty_thoughts(load_data("sft", str(row)), own) == (thinking is not False)
