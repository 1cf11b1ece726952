"""Which answers are read from several logs of a model, and the commands that make those that are absent."""

import shlex
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval
from inspect_ai.model import GenerateConfig, ModelOutput, ModelUsage, get_model

from truthgym.scorers.mutual_prediction.answers import Answers, read_answers
from truthgym.tasks.domains import forecasting


def model(name: str, reply: str) -> Any:
    output = ModelOutput.from_content(f"mockllm/{name}", reply)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return get_model(
        f"mockllm/{name}", custom_outputs=lambda *_: output, config=GenerateConfig(temperature=0.5), memoize=False
    )


@pytest.fixture(scope="module")
def answers_of_logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Answers, list[str], Path]:
    """Four old answers, newer ones to two of them and one more question, by one model; six by another, one half."""
    folder = tmp_path_factory.mktemp("logs")
    common: dict[str, Any] = {"log_dir": str(folder), "display": "none", "log_realtime": False, "epochs": 1}
    ids = [str(item.id) for item in forecasting(part="events", n=6, paradigms="brier").dataset]

    def ask(name: str, belief: float, chosen: list[str], n: int) -> None:
        task = forecasting(part="events", n=n, paradigms="brier")
        (log,) = eval(task, model(name, f"\\finalBeliefProb{{{belief}}}"), sample_id=chosen, **common)
        assert log.status == "success", log.error

    ask("one", 0.9, ids[:4], 6)
    ask("one", 0.2, [*ids[:2], ids[4]], 6)
    ask("other", 0.5, ids[:1], 6)
    ask("other", 0.7, ids[1:], 6)
    return read_answers([str(folder)], "short"), ids, folder


def test_a_smaller_newer_log_takes_nothing_away(answers_of_logs: tuple[Answers, list[str], Path]) -> None:
    answers, ids, _ = answers_of_logs
    entry, other = sorted(answers.respondents, key=lambda entry: entry.name)
    assert {name: [reply.shown for reply in replies] for name, replies in entry.answers.items()} == {
        ids[0]: ["No"], ids[1]: ["No"], ids[2]: ["Yes"], ids[3]: ["Yes"], ids[4]: ["No"]
    }  # fmt: skip
    assert answers.left_out["answers of which there are newer ones"] == 2
    assert other.unread == {ids[0]: "answers of one half"}
    assert set(other.uuids) == set(ids)


def test_the_command_is_that_of_the_model_and_asks_what_is_absent(
    answers_of_logs: tuple[Answers, list[str], Path],
) -> None:
    answers, ids, folder = answers_of_logs
    (command,) = answers.missing()
    words = shlex.split(command)
    assert words[:3] == ["inspect", "eval", "truthgym/forecasting"]
    options = dict(zip(words[3::2], words[4::2], strict=True))
    assert options["--model"] == "mockllm/one"
    assert (options["--temperature"], options["--epochs"]) == ("0.5", "1")
    assert (options["--sample-id"], options["--log-dir"]) == (ids[5], str(folder))
    assert "n=6" in words
    assert "part=events" in words
