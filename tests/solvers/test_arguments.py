"""Arguments of solvers: those that are refused when one is created, by value and remedy, and solvers by name."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai._util.registry import registry_info, registry_params

from truthgym.datasets.errors import BadInput
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.examples import Example, Turn
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import length_control
from truthgym.solvers.prepare import prepare
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate
from truthgym.solvers.wrapped_solver import wrapped_solver

Make = Callable[..., Any]
WRONG: list[tuple[Make, dict[str, Any], tuple[str, ...]]] = [
    (direct, {"steps": 2}, ("direct: there is no argument 'steps'",)),
    (chain_of_thought, {"step": 2}, ("did you mean 'steps'",)),
    *((dialogue, {"turns": turns}, (f"dialogue: turns={turns!r}",)) for turns in (0, 1.5, "2", None)),
    (chain_of_thought, {"steps": 0}, ("chain_of_thought: steps=0", "greater than or equal to 1")),
    (self_debate, {"turns": 0, "order": "revesed"}, ("turns=0", "order='revesed'", "did you mean 'reversed'")),
    *((self_debate, {"sides": sides}, ("sides",)) for sides in ([], ["It rains."], "It rains.", ["It rains.", " "], 5)),
    (bootstrap_interview, {"questions": 2.0}, ("questions=2.0", "valid integer")),
    (bootstrap_interview, {"questions": 13, "mode": "fixed_sequence"}, ("questions=13", "at most 12")),
    (bootstrap_interview, {"mode": "llm_presets"}, ("mode='llm_presets'", "did you mean 'llm_preset'")),
    (bootstrap_interview, {"mode": "llm_preset", "instructions": "socratc"}, ("did you mean 'socratic'",)),
    (bootstrap_interview, {"mode": "stationary_ood", "domains": "urn"}, ("did you mean 'urns'",)),
    (
        bootstrap_interview,
        {"instructions": "socratic", "domains": "urns"},
        ("instructions=socratic with mode=iid", "mode=llm_adaptive", "domains=urns", "mode=stationary_ood"),
    ),
    (bootstrap_interview, {"mode": "stationary_ood"}, ("domains=none", "forecasting")),
    (bootstrap_interview, {"domains": [1]}, ("domains=[1]", "valid string")),
    (length_control, {"target": 0, "attempts": -1}, ("target=0", "attempts=-1")),
    (length_control, {"target": 9.5, "tolerance": float("nan")}, ("target=9.5", "tolerance=nan")),
    (length_control, {"unit": "word", "tolerance": 1.1}, ("did you mean 'words'", "tolerance=1.1")),
    (length_control, {"base": {"chain_of_thought": {"steps": 0}}}, ("chain_of_thought: steps=0",)),
    (few_shot, {}, ("source is missing", "-S source=LOG.eval")),
    (few_shot, {"source": "gone.jsonl"}, ("There is no file gone.jsonl",)),
    (few_shot, {"count": 0, "tokens": "1k", "share": 1.5}, ("count=0", "tokens='1k'", "share=1.5")),
    (few_shot, {"share": float("nan"), "best": "low"}, ("share=nan", "did you mean 'lowest'")),
    *((run_agent, {"agent": agent}, (f"agent={agent!r}", "PACKAGE/NAME")) for agent in ("raect", "a/b", "", 5, len)),
    (run_agent, {"agent": len, "arguments": {"said": "Hm."}}, ("by name",)),
    (run_agent, {"arguments": {"promt": "Hm."}}, ("'promt'", "unexpected keyword argument")),
    (run_agent, {"arguments": {"submit": False, "on_continue": "Go on."}}, ("on_continue",)),
    (run_agent, {"arguments": "prompt"}, ("arguments='prompt'", "dictionary")),
    *((prepare, {"system_prompt": text}, ("is empty", "system_prompt=none")) for text in ("", " \n")),
    *((prepare, {"system_prompt": text}, ("did you mean",)) for text in ("critical_thinkin", "Prior-conforming")),
    (prepare, {"system_prompt": False}, ("system_prompt=False", "not text", "quote it twice")),
    *(
        (wrapped_solver, {"where": "few_shot", "base": base}, (f"few_shot: base={base!r}", "NAME: {argument: value}"))
        for base in ("chain", "inspect_ai/chian", "", None, 5, {}, [], ["direct", "dialogue"], {"direct": "steps"})
    ),
    (wrapped_solver, {"where": "few_shot", "base": {"direct": {"steps": 2}}}, ("no argument 'steps'",)),
    (wrapped_solver, {"where": "few_shot", "base": {"few_shot": {}}}, ("few_shot: source is missing",)),
]


@pytest.mark.parametrize(("make", "arguments", "problems"), WRONG)
def test_a_bad_argument_is_refused(make: Make, arguments: dict[str, Any], problems: tuple[str, ...]) -> None:
    with pytest.raises(BadInput) as error:
        make(**arguments)
    message = str(error.value).replace("\\", "")
    assert all(problem in message for problem in problems), message


@pytest.mark.parametrize(
    ("base", "name", "arguments"),
    [
        ("direct", "truthgym/direct", {}),
        ("truthgym/direct", "truthgym/direct", {}),
        ("inspect_ai/generate", "inspect_ai/generate", {}),
        ({"direct": None}, "truthgym/direct", {}),
        ({"chain_of_thought": {"steps": 2}}, "truthgym/chain_of_thought", {"steps": 2}),
        (["direct"], "truthgym/direct", {}),
        (chain_of_thought(steps=3), "truthgym/chain_of_thought", {"steps": 3}),
    ],
    ids=lambda given: "solver" if callable(given) else str(given),
)
def test_a_base_is_found(base: Any, name: str, arguments: dict[str, Any]) -> None:
    result = wrapped_solver("few_shot", base)
    assert registry_info(result).name == name
    assert {key: registry_params(result)[key] for key in arguments} == arguments


def test_examples_must_fit_into_the_token_budget(tmp_path: Path) -> None:
    turns = [Turn(role="user", content="Is 2 even?"), Turn(role="assistant", content="Yes. " * 20)]
    example = Example(id="two", event="two", split="train", score=0, messages=turns)
    (tmp_path / "mine.jsonl").write_text(example.model_dump_json())
    few_shot(str(tmp_path / "mine.jsonl"), tokens=example.tokens)
    with pytest.raises(BadInput, match=f"tokens=20; the smallest takes {example.tokens}"):
        few_shot(str(tmp_path / "mine.jsonl"), tokens=20)
