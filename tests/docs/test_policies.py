"""docs/policies.md: no policy string is forgotten, and no provider or option is named that does not exist."""

import re
from pathlib import Path

import click
import pytest
from inspect_ai._cli.main import inspect as cli
from inspect_ai._util.registry import registry_find, registry_unqualified_name  # as get_model finds a provider

POLICIES = re.findall(
    r"\S+",
    """
human claude-code gemini-embedding-001 Qwen/Qwen3-Embedding-8B Qwen/Qwen3-Embedding-4B Qwen/Qwen3-Embedding-0.6B
gpt-4.1-nano gpt-4.1-mini gpt-4.1 gpt-5 gpt-5-mini gpt-5-nano gpt-o3 o3 o3-2025-04-16 gpt-o4-mini o4-mini
o4-mini-2025-04-16 gpt-4o deepseek-v3 llama-4-scout llama-4-maverick claude-sonnet-4 claude-opus-4 claude-opus-4.1
claude-3-5-haiku deepseek-r1 gemma-3-27b-it gemma-3-12b-it gemma-3-4b-it gemma-2-27b-it gemma-3n-e4b-it
llama-3-1-8b-instruct qwen-3-235b-a22b-instruct qwen-3-235b-a22b-thinking qwen-3-235b-a22b qwen-3-32b qwen-3-14b
qwen-3-14b-base qwen-3-8b qwen-3-8b-base qwen-2-5-7b mistral-small-3.1-24b-instruct mistral-small-24b-instruct-2501
kimi-k2 gemini-2.0-flash gemini-2.5-flash gemini-2.5-pro
""",
)
KINDS = ["a Hugging Face id", "a path below `data/models/`"]
LISTS = ["frontier", "legacy", "neurips"]
SETTINGS = re.findall(
    r"\S+",
    """
TEMPERATURE PRESENCE_PENALTY NO_RETRY MAX_WORKERS USE_RAY PARALLEL_BATCH USE_BATCH USE_OPENROUTER SAVE_TO_FILE DEBUG
SHOW_PROGRESS NUM_TRAJECTORIES RERUN_INCOMPLETE RECOMPUTE_TRAJECTORIES RECOMPUTE_BELIEFS RECOMPUTE_RESULTS
DECOUPLE_TRAJECTORY_BELIEFS DIR_NAME POLICY_LIST POLICY_LIST_MODE FORBIDDEN_MODELS SYSTEM_PROMPT JUDGE_POLICY_NAMES
USE_FIXED_JUDGE OBJECTIVE_BELIEF USE_PER_TRAJ_BELIEF_MEASURE DISABLE_SYSTEM_PROMPT_IN_BELIEF_MEASUREMENT
OPENAI_API_KEY ANTHROPIC_API_KEY GOOGLE_API_KEY TOGETHER_API_KEY OPENROUTER_API_KEY HUGGINGFACE_API_KEY WANDB_API_KEY
""",
)


@pytest.fixture(scope="module")
def page() -> str:
    return (Path(__file__).parent.parent.parent / "docs" / "policies.md").read_text()


def cells(page: str) -> list[list[str]]:
    return [re.split(r" *\| *", line.strip("| ")) for line in page.splitlines() if line.startswith("| ")]


def code(text: str) -> list[str]:
    """Every piece of code in a text: blocks, with their lines put together, and spans."""
    blocks = re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return lines + re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))


def models(page: str) -> set[str]:
    """Every model string: in the tables of models, after --model, and in a role."""
    tables = [row[1:] for row in cells(page) if len(row) == 4]
    named = [span for row in tables for cell in row for span in re.findall(r"`([^`]+/[^`]+)`", cell)]
    for piece in code(page):
        named += [name for given in re.findall(r"--model ([^\s']+)", piece) for name in given.split(",")]
        named += re.findall(r"(?:model: |judge=)([\w-]+/[^\s,}']+)", piece)
        named += re.findall(r"^((?:openrouter|openai-api|hf|vllm|sglang)/.*)", piece)
    return {name for name in named if "/" in name and not name.startswith("PROVIDER")}


def test_no_policy_of_the_other_system_is_forgotten(page: str) -> None:
    first = {span for row in cells(page) for span in re.findall(r"`([^`]+)`", row[0])}
    assert set(POLICIES) <= first
    assert set(LISTS) <= first
    assert {setting for setting in SETTINGS if not re.search(rf"`{setting}\b", page)} == set()
    assert all(kind in page for kind in KINDS)


def test_every_policy_has_a_model_or_says_why_not(page: str) -> None:
    for row in (row for row in cells(page) if len(row) == 4 and row[0].startswith("`")):
        for way in row[1:3]:
            assert re.match(r"`[\w-]+/|not confirmed here$|none$", way), row


def provided(name: str) -> bool:
    provider = name.split("/")[0]
    return bool(registry_find(lambda info: info.type == "modelapi" and registry_unqualified_name(info) == provider))


def test_every_provider_is_one_that_inspect_finds(page: str) -> None:
    named = models(page)
    assert len(named) > 80
    assert {name for name in named if not provided(name)} == set()


def options(command: click.Command) -> set[str]:
    return {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}


def test_every_option_is_one_of_inspects(page: str) -> None:
    used = 0
    for piece in code(page):
        asked = re.match(r"inspect ([a-z-]+)(?: ([a-z]+))?", piece)
        command: click.Command = cli.commands[asked[1] if asked else "eval"]  # by itself, an option is one of eval's
        if asked and isinstance(command, click.Group) and asked[2]:
            command = command.commands[asked[2]]
        named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", piece))
        assert named <= options(command), piece
        used += len(named)
    assert used > 40
