"""Known truth in every reasoning mode: agents whose beliefs are planted keep them, however they are made to reason.

The agents are deterministic: each belief that the log holds is the number that the agent's pure functions give.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task, eval
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import get_model
from inspect_ai.solver import Solver

from tests.fixtures import Run, metrics, samples, score_of
from truthgym.datasets.loading.generated import logit
from truthgym.datasets.question import Question
from truthgym.datasets.urns import UrnQuestion
from truthgym.models.agents.belief_reports import percent, report
from truthgym.models.agents.policies import Case, Parameters, believe, private_signal
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.critique_revise import critique_revise
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import length_control
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.self_debate import self_debate
from truthgym.tasks.domains import forecasting
from truthgym.tasks.worlds import urns


@dataclass(frozen=True)
class Mode:
    """A reasoning mode as it is run here, with as few turns as show what it does."""

    solver: Callable[[str, str], Solver]
    """From a log of examples and the name of another domain."""
    stated: int = 1
    """Beliefs that the agent has stated of the question where its posterior is asked."""
    roles: dict[str, str] = field(default_factory=dict)


OPPOSED = {"debater_a": "reference/random", "debater_b": "reference/entrenched"}
INTERVIEWER = {"interviewer": "reference/interviewer"}
MODES = {
    "direct": Mode(lambda *_: direct()),
    "chain_of_thought": Mode(lambda *_: chain_of_thought(steps=2), stated=2),
    "self_debate": Mode(lambda *_: self_debate(turns=1), stated=2),
    "self_debate with debaters": Mode(lambda *_: self_debate(turns=1), roles=OPPOSED),
    "self_debate with one debater": Mode(lambda *_: self_debate(turns=1), roles={"debater_b": "reference/random"}),
    "dialogue": Mode(lambda *_: dialogue(turns=1), stated=2, roles={"interlocutor": "reference/confirming"}),
    "interview fixed_sequence": Mode(lambda *_: bootstrap_interview(1, "fixed_sequence")),
    "interview iid": Mode(lambda *_: bootstrap_interview(2, "iid")),
    "interview stationary_ood": Mode(lambda _, other: bootstrap_interview(1, "stationary_ood", domains=other)),
    "interview llm_preset": Mode(lambda *_: bootstrap_interview(1, "llm_preset", "socratic"), roles=INTERVIEWER),
    "interview llm_adaptive": Mode(lambda *_: bootstrap_interview(2, "llm_adaptive"), roles=INTERVIEWER),
    "length_control": Mode(lambda *_: length_control(60, tolerance=0.02)),
    "length_control of a chain": Mode(
        lambda *_: length_control(300, "characters", base={"chain_of_thought": {"steps": 1}})
    ),
    "critique_revise": Mode(lambda *_: critique_revise()),
    "few_shot": Mode(lambda log, _: few_shot(log, share=0.2)),
    "run_agent": Mode(lambda *_: run_agent()),
}
every_mode = pytest.mark.parametrize("mode", MODES)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """A scored log of each domain, for examples."""
    place = str(tmp_path_factory.mktemp("examples"))
    tasks = [urns(n=40, seed=7, paradigms="brier"), forecasting(n=40, seed=7, paradigms="brier")]
    results = eval(tasks, model="reference/bayesian", epochs=1, log_dir=place, display="log", log_realtime=False)
    return {log.eval.task.removeprefix("truthgym/"): log.location for log in results}


@pytest.fixture
def reason(run: Run, logs: dict[str, str]) -> Callable[..., EvalLog]:
    """Let an agent reason in a mode."""

    def run_mode(task: Task, mode: str, agent: str, epochs: int, **given: Any) -> EvalLog:
        name = task.name.removeprefix("truthgym/")
        other = {"urns": "forecasting", "forecasting": "urns"}[name]
        model = get_model(f"reference/{agent}", **given)
        roles = MODES[mode].roles | {"judge": "reference/judge"}
        solver = MODES[mode].solver(logs[name], other)
        limits = {"message_limit": 60}  # should an agent never come to an end
        return run(task, model, solver=solver, epochs=epochs, model_roles=roles, score_display=False, **limits)

    return run_mode


Reason = Callable[..., EvalLog]


def cases(item: EvalSample, thoughts: int, parameters: Parameters) -> tuple[Case, Case]:
    """A question as the agent sees it at first, and after so many thoughts."""
    if item.metadata.get("posterior"):
        odds = [logit(p) for p in item.metadata_as(UrnQuestion).posterior]
        question = str(item.input)
        return Case(question, odds[0], ()), Case(question, odds[0], tuple(np.diff(odds)))
    key, truth = str(item.id), item.target == "yes"
    first, last = (private_signal(key, truth, known, item.epoch, parameters) for known in (0, thoughts))
    return first, last


def expected(item: EvalSample, agent: str, stated: int, parameters: Parameters) -> tuple[float, float, float]:
    """What the pure functions say: the reported prior and posterior, and what is believed in the end."""
    first, last = cases(item, stated, parameters)
    before = believe(agent, first, item.epoch, 0, parameters)
    after = believe(agent, last, item.epoch, stated, parameters)
    prior = report(before, parameters, agent, first.key, item.epoch, "percent", 0, 0)
    posterior = report(after, parameters, agent, last.key, item.epoch, "percent", stated, len(last.evidence))
    return float(percent(prior)), float(percent(posterior)), after


def values(item: EvalSample, scorer: str = "martingale") -> dict[str, Any]:
    value = score_of(item, scorer).value
    assert isinstance(value, dict)
    return value


ALL = {"brier": None, "martingale": {"elicitor": "both"}}


@every_mode
@pytest.mark.parametrize(("domain", "agent"), [(forecasting, "overreacting"), (urns, "stuck")])
def test_without_noise_every_mode_says_what_the_agent_believes(
    reason: Reason, domain: Callable[..., Task], agent: str, mode: str
) -> None:
    """The model's own prior and posterior, a judge's reading of both, and the answer.

    Would the prior see evidence, examples or an interview, it would not be what is believed at first sight. Would the
    posterior miss the evidence, or another's belief be taken for the agent's own, it would not be what the agent
    believes (`overreacting` agrees with no other agent here). Would a judge read the interview, neither. Whatever
    moves `stuck` is not its own, but another's belief or another question's.
    """
    log = reason(domain(n=4, paradigms=ALL), mode, agent, epochs=1)
    assert metrics(log, 0)["share_scored"] == 1
    for item in samples(log):
        prior, posterior, belief = expected(item, agent, MODES[mode].stated, Parameters())
        assert values(item)["prior"] == prior
        assert values(item)["posterior"] == posterior
        assert values(item)["judge_prior"] == prior
        assert values(item)["judge_posterior"] == posterior
        assert values(item, "brier")["belief"] == belief
        assert agent != "stuck" or prior == posterior == item.metadata_as(Question).base_rate


def test_the_modes_are_all_there(root: Path) -> None:
    """A mode that is added is to be held to its truth as well."""
    public = {path.stem for path in (root / "solvers").glob("*.py") if "\n@solver\n" in path.read_text()}
    names = {mode.split()[0].replace("interview", "bootstrap_interview") for mode in MODES}
    # best_of_n selects among answers
    assert public - {"prepare", "best_of_n"} == names
