"""Users' reward functions: called as TRL calls them, and held to what they must return."""

import json
import math
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.reward_functions.user_function import FunctionReward, hash_of_source, load_function
from truthgym.training.trainers.options import RolloutOptions

MINE = r"""
def length(prompts, completions, words, log_metric, **columns):
    log_metric("mine", 2.0)
    return [None if not said else len(said[-1]["content"]) * n for said, n in zip(completions, words)]

async def later(prompts, completions, **columns):
    return [float(target == "yes") for target in columns["target"]]

later.proper = True
number = 3
"""


def rollout(number: int, answer: str = "an answer", **fields: Any) -> Rollout:
    return Rollout("mine", f"s{number}", 1, "Will it?", "yes", {"words": number}, answer=answer, tokens=3, **fields)


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.py").write_text(MINE)
    return tmp_path / "mine.py"


def test_a_function_of_a_file(mine: Path) -> None:
    reward = FunctionReward(f"{mine}:length", load_function(f"{mine}:length"))
    lost = rollout(2, "x", error="ConnectError", call_failed=True)
    rewards = reward([rollout(1, "four"), rollout(2, "x", error="RuntimeError"), rollout(3, "xx"), lost])
    assert rewards == [4.0, 4.0, 6.0, None]  # it does not get runs that failed
    assert reward.figures == {"mine": 2.0}
    assert (reward.proper, reward.baseline([]), reward([])) == (False, None, [])
    later = FunctionReward("later", load_function(f"{mine}:later"))
    assert later([rollout(1), rollout(2)]) == [1.0, 1.0]
    assert later.proper, "as it says"


def test_a_function_by_its_import_path() -> None:
    reward = FunctionReward("ours", load_function("truthgym.training.trl_rewards.brier"))
    assert reward([rollout(1, "70%"), rollout(2, "well")]) == pytest.approx([-0.09, -1.0])
    assert reward.proper
    assert reward.read([rollout(1, "70%"), rollout(2, "well")]) == 0.5


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ([1.0], "returned 1 rewards for 2 completions"),
        ([1.0, float("nan")], "returned nan for sample s2 of mine"),
        ([1.0, "much"], "returned 'much' for sample s2"),
        (7, "returned 7"),
    ],
    ids=["short", "nan", "text", "number"],
)
def test_what_it_may_not_return(returned: Any, words: str) -> None:
    with pytest.raises(BadInput, match=f"reward=mine: it {words}.*; return"):
        FunctionReward("mine", lambda **_: returned)([rollout(1), rollout(2)])


def test_fields_of_a_question_never_stand_in_for_what_trl_gives() -> None:
    def lengths(prompts: list[Any], completions: list[Any], words: list[int], **_: Any) -> list[float | None]:
        return [float(len(completion[-1]["content"])) for completion in completions]

    odd = {"prompts": "?", "completions": "?", "completion_ids": "?", "log_metric": "?", "words": 1}
    odd_rollout = Rollout("mine", "s1", 1, "Will it?", "yes", odd, answer="four")
    assert FunctionReward("mine", lengths)([odd_rollout]) == [4.0]


def test_a_file_may_hold_dataclasses_and_what_it_raises_is_named_with_its_line(tmp_path: Path) -> None:
    """Dataclasses look their module up by its name."""
    source = """from __future__ import annotations
from dataclasses import KW_ONLY, dataclass

@dataclass
class Weights:
    _: KW_ONLY
    most: float = 2.0

def fixed(completions, **columns):
    return [Weights().most for _ in completions]

def fails(completions, **columns):
    raise KeyError('colour')
"""
    (tmp_path / "mine.py").write_text(source)
    assert FunctionReward("mine", load_function(f"{tmp_path / 'mine.py'}:fixed"))([rollout(1)]) == [2.0]
    with pytest.raises(BadInput, match=r"reward=mine: .* KeyError: 'colour' \(.*mine\.py, line 13\) on 3 completions"):
        FunctionReward("mine", load_function(f"{tmp_path / 'mine.py'}:fails"))([rollout(i) for i in range(3)])


def test_what_a_function_says_is_told_from_where_it_lies(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = hash_of_source(f"{mine}:length")
    mine.write_text(MINE.replace("* n", "* n * n"))
    assert hash_of_source(f"{mine}:length") not in (first, None)
    assert hash_of_source("truthgym.training.trl_rewards.brier") is None
    package = tmp_path / "own_rewards"
    package.mkdir()
    (package / "__init__.py").write_text("from own_rewards.inner import length\n")
    (package / "inner.py").write_text(MINE)
    monkeypatch.syspath_prepend(str(tmp_path))
    whole = hash_of_source("own_rewards.length")
    (package / "inner.py").write_text(MINE.replace("* n", "* n * n"))
    assert hash_of_source("own_rewards.length") not in (whole, None), "the file in which it stands counts"
    for name in ("own_rewards", "own_rewards.inner"):
        monkeypatch.delitem(sys.modules, name)


@pytest.mark.parametrize(
    "options",
    [{"reward": ["brier", "FILE:length"]}, {"task": ["FILE@mine"]}, {"task": ["FILE"]}, {"solver": "FILE@mine"}],
    ids=["reward", "task", "only-task", "solver"],
)
def test_an_edited_file_names_another_model(mine: Path, options: dict[str, Any]) -> None:
    """Else what was trained with the file as it was would count as trained already."""

    def settings() -> dict[str, Any]:
        changed: dict[str, Any] = json.loads(json.dumps(options).replace("FILE", str(mine)))
        return RolloutOptions(**changed).settings()

    first = settings()
    assert first == settings()
    mine.write_text(MINE + "\n")
    assert {name for name, value in settings().items() if value != first[name]} == {"files"}


def test_what_is_no_function(mine: Path) -> None:
    for ending, words in ((":nothing", "no function 'nothing'"), (":number", "no function 'number'"),
                          (".gone.f", "cannot be loaded")):  # fmt: skip
        with pytest.raises(BadInput, match=words):
            load_function(f"{mine}{ending}")


def test_the_page_says_what_arrives_and_its_examples_run(tmp_path: Path) -> None:
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    page = Path("docs/rewards.md").read_text(encoding="utf-8")
    section = page.partition("## A reward of your own")[2].partition("\n## ")[0]
    (tmp_path / "rewards.py").write_text(section.partition("```python\n")[2].partition("```")[0])
    verified, judged = (load_function(f"{tmp_path}/rewards.py:{name}") for name in ("verified", "judged"))
    texts = ["7 + 5 = 12", "13", "no idea"]
    rollouts = [Rollout("sums", f"s{at}", 1, "7 + 5?", "12", answer=text) for at, text in enumerate(texts)]
    assert FunctionReward("verified", verified)(rollouts) == [1.0, 0.0, 0.0]

    replies = [ModelOutput.from_content("judge", text) for text in ("8", "10 of 10", "clear enough")]
    for reply in replies:
        reply.usage = ModelUsage()
    verified.__globals__["JUDGE"] = get_model("mockllm/model", custom_outputs=replies)
    reward = FunctionReward("judged", judged)
    reward.function.__globals__["JUDGE"] = verified.__globals__["JUDGE"]
    given = reward(rollouts)
    assert sorted(given, key=lambda value: (value is None, value)) == [0.8, 1.0, None]
    assert reward.figures == {"judge_unread": pytest.approx(1 / 3)}

    assert math.isnan(reward.read(rollouts)), "sums have no belief to read"

    columns: dict[str, Any] = {}

    def seen(**arguments: Any) -> list[float | None]:
        columns.update(arguments)
        return [0.0]

    FunctionReward("seen", seen)([rollout(1)])
    told = set(re.findall(r"`(\w+)`", section.partition("| every other")[0].partition("|---|---|")[2]))
    assert columns.keys() - {"words"} <= told, "the page names every argument"
