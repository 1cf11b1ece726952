"""docs/models.md names only providers and options that Inspect has."""

import re
from pathlib import Path

import pytest
from inspect_ai._cli.main import inspect as cli
from inspect_ai._util.registry import registry_find, registry_unqualified_name  # as get_model finds a provider

import truthgym.tasks  # noqa: F401 (registers our providers)


@pytest.fixture
def page(root: Path) -> str:
    return (root / "docs" / "models.md").read_text()


def test_every_provider_exists(page: str) -> None:
    table = page.split("## Coding agents")[0]
    providers = set(re.findall(r"[`,] ?([a-z][a-z-]+)/(?=[\w.]+[`:/ ]|VENDOR|SERVICE|NAME)", table))
    assert {"openai", "anthropic", "hf", "vllm", "human", "reference", "openai-api"} <= providers
    known = {registry_unqualified_name(info) for info in registry_find(lambda info: info.type == "modelapi")}
    assert providers <= known


def test_every_option_is_one_of_inspect_eval(page: str) -> None:
    others = {"--all", "--out", "--target", "--no-deps", "--device", "--port", "--chat-template"}  # of other commands
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page)) - others
    known = {name for parameter in cli.commands["eval"].params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert len(named) > 15
    assert named <= known
