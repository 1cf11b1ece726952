import pytest
from inspect_ai.log import EvalLog

from tests.fixtures import Run
from truthgym.tasks.worlds import urns


@pytest.fixture(scope="module")
def scored(run_once: Run) -> EvalLog:
    """Twenty urns, twice, answered and scored by a reference agent."""
    return run_once(urns(n=20, paradigms="brier", system_prompt="Think."), epochs=2)
