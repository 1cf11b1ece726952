"""The solver that another one wraps: by name, with arguments, or as it is."""

from typing import Any

import pytest
from inspect_ai._util.registry import registry_info, registry_params

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
    result = wrapped_solver("few_shot", base)
    assert registry_info(result).name == name
    assert {key: registry_params(result)[key] for key in arguments} == arguments
