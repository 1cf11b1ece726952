"""The solver that another one wraps: by name, with arguments, or as it is."""

from typing import Any

import pytest
from inspect_ai._util.registry import registry_info, registry_params

from truthgym.datasets.errors import BadInput
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.wrapped_solver import wrapped_solver


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
    made = wrapped_solver("few_shot", base)
    assert registry_info(made).name == name
    assert {key: registry_params(made)[key] for key in arguments} == arguments


@pytest.mark.parametrize(
    ("base", "refused"),
    [
        ("chain", "few_shot: base='chain' is not a known solver; give one as in --solver, such as chain_of_thought"),
        ("inspect_ai/chian", "few_shot: base='inspect_ai/chian' is not a known solver; give one as in --solver"),
        ("", "few_shot: base='' is not a known solver; give one as in --solver"),
        (None, "few_shot: base=None cannot be used; write NAME or {NAME: {argument: value}}"),
        (5, "few_shot: base=5 cannot be used; write NAME or {NAME: {argument: value}}"),
        ({}, "few_shot: base={} names 0 solvers; give one, as in base=chain_of_thought"),
        ([], "few_shot: base=[] names 0 solvers; give one"),
        ({"direct": None, "dialogue": None}, "few_shot: base={'direct': None, 'dialogue': None} names 2 solvers"),
        (["direct", "dialogue"], "few_shot: base=['direct', 'dialogue'] names 2 solvers; give one"),
        ({"direct": "steps"}, "few_shot: base={'direct': 'steps'} cannot be used; write NAME or {NAME: {argument: va"),
        ({"direct": {"steps": 2}}, "few_shot: base={'direct': {'steps': 2}} cannot be used: direct() got an unexpecte"),
        ({"few_shot": {}}, "few_shot: source is missing; write -S source=LOG.eval"),
        (
            {"chain_of_thought": {"steps": 0}},
            "chain_of_thought: steps=0 cannot be used; it must be greater than or equal to 1",
        ),
    ],
    ids=lambda given: "solver" if callable(given) else str(given),
)
def test_what_is_no_base_is_refused(base: Any, refused: str) -> None:
    with pytest.raises(BadInput) as error:
        wrapped_solver("few_shot", base)
    assert str(error.value).replace("\\", "").startswith(refused)
