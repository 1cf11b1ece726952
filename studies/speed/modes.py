"""What does each reasoning mode cost, alone and with each way to measure beliefs? Writes docs/cost_modes.md.

    python -m studies.speed.modes docs/cost_modes.md

Counts model calls and tokens in the logs of reference agents on urn questions, and checks the calls against the
formulas of the docstrings. A reference agent's replies are short: the calls apply to any model, the tokens do not, but
their ratios between modes show what is sent again with each turn.
"""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from inspect_ai import eval
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model
from inspect_ai.solver import Solver

from studies.speed.timing import arguments
from studies.study import run_task, write_texts
from truthgym.analysis.tables.markdown import markdown
from truthgym.solvers.length_control import LengthControl
from truthgym.tasks import (
    bootstrap_interview,
    chain_of_thought,
    dialogue,
    direct,
    few_shot,
    length_control,
    run_agent,
    self_debate,
    urns,
)
from truthgym.tasks.domain_task import ScorerNames

QUESTIONS = 20
INTERVIEWER = {"interviewer": "reference/interviewer"}
DEBATERS = {"debater_a": "reference/bayesian", "debater_b": "reference/entrenched"}


@dataclass(frozen=True)
class Mode:
    """A reasoning mode with its arguments, and the cost that its docstring gives."""

    name: str
    solver: Callable[[str], Solver]
    """From the path of a scored log to the solver."""
    formula: str
    calls: int
    """Calls of the model itself, without revisions."""
    turns: int
    """Its replies about the question itself."""
    others: int = 0
    """Calls of models in other roles."""
    roles: dict[str, str] = field(default_factory=dict)


def interview(mode: str, formula: str, others: int = 0) -> Mode:
    domains = "forecasting" if mode == "stationary_ood" else ()
    name = f"bootstrap_interview(3, {mode})"
    return Mode(name, lambda _: bootstrap_interview(3, mode, domains=domains), formula, 4, 1, others, INTERVIEWER)  # type: ignore[arg-type]


MODES = [
    Mode("direct", lambda _: direct(), "1", 1, 1),
    Mode("chain_of_thought(steps=4)", lambda _: chain_of_thought(4), "steps + 1", 5, 5),
    Mode("self_debate(turns=2)", lambda _: self_debate(2), "turns x positions + 1", 5, 5),
    Mode(
        "self_debate(turns=2), two debaters", lambda _: self_debate(2), "the same, of three models", 1, 1, 4, DEBATERS
    ),
    Mode("dialogue(turns=3)", lambda _: dialogue(3), "2 x turns + 2", 5, 5, 3, {"interlocutor": "reference/bayesian"}),
    interview("fixed_sequence", "questions + 1"),
    interview("iid", "questions + 1"),
    interview("stationary_ood", "questions + 1"),
    interview("llm_preset", "questions + 2", 1),
    interview("llm_adaptive", "2 x questions + 1", 3),
    Mode("length_control(target=30)", lambda _: length_control(30, tolerance=0.02), "base + at most attempts", 1, 1),
    Mode("few_shot(count=30)", lambda log: few_shot(log, count=30), "base", 1, 1),
    Mode("run_agent(react)", lambda _: run_agent(), "as many as the agent makes", 1, 1),
]
PROTOCOLS: dict[str, tuple[dict[str, object] | None, str, Callable[[float], float]]] = {
    "alone": (None, "0", lambda turns: 0),
    "+ self": ({}, "2", lambda turns: 2),
    "+ self, by step": ({"per": "step"}, "1 + turns", lambda turns: 1 + turns),
    "+ judge": ({"elicitor": "judge"}, "3", lambda turns: 3),
    "+ judge, by step": ({"elicitor": "judge", "per": "step"}, "2 + turns", lambda turns: 2 + turns),
    "+ both by step, joint": (
        {"elicitor": "both", "per": "step", "joint": True},
        "4 + 2 x turns",
        lambda turns: 4 + 2 * turns,
    ),
}
"""Ways to measure beliefs: arguments of `martingale`, and the calls that they add, in words and from the turns."""


@dataclass(frozen=True)
class Cost:
    """Means per question and epoch."""

    calls: float
    tokens: float
    revisions: float


def requests(log: EvalLog) -> list[ModelEvent]:
    """What models were asked in the run of a log and in its scoring, also where Inspect's cache answered."""
    return [event for sample in log.samples or [] for event in sample.events if isinstance(event, ModelEvent)]


def calls_and_tokens(events: Sequence[ModelEvent]) -> tuple[int, int]:
    return len(events), sum(event.output.usage.total_tokens for event in events if event.output.usage)


def cost(mode: Mode, protocol: dict[str, object] | None, examples: str) -> Cost:
    """Run a mode with a way to measure beliefs, and count calls and tokens."""
    paradigms: ScorerNames = "brier" if protocol is None else {"martingale": protocol}
    roles = mode.roles | ({} if protocol is None else {"judge": "reference/judge"})
    task, models = urns(n=QUESTIONS, paradigms=paradigms), {role: get_model(name) for role, name in roles.items()}
    model = get_model("reference/bayesian")
    log = run_task(task, model, solver=mode.solver(examples), model_roles=models, epochs=1)
    calls, tokens = calls_and_tokens(requests(log))
    revisions = sum(sample.store_as(LengthControl).attempts for sample in log.samples or [])
    return Cost(calls / QUESTIONS, tokens / QUESTIONS, revisions / QUESTIONS)


def main(out: str) -> None:
    rows, revisions = [], 0.0
    with tempfile.TemporaryDirectory() as logs:
        questions = urns(n=121, seed=1, split="train", paradigms="brier")
        examples = eval(questions, model="reference/bayesian", log_dir=logs, display="none")[0].location
        for mode in MODES:
            cells = []
            for arguments, _, added in PROTOCOLS.values():
                counted = cost(mode, arguments, examples)
                revisions = max(revisions, counted.revisions)
                expected = mode.calls + mode.others + counted.revisions + added(mode.turns + counted.revisions)
                assert abs(counted.calls - expected) < 1e-9, f"{mode.name}: {counted.calls} calls, expected {expected}"
                cells.append(f"{counted.calls:.4g} / {counted.tokens:,.0f}")
            rows.append([f"`{mode.name}`", mode.formula, *cells])
            print(*rows[-1], sep=" | ", flush=True)
    added_calls = [[name, _written(arguments), formula] for name, (arguments, formula, _) in PROTOCOLS.items()]
    header = ["ways to measure beliefs", "arguments of `martingale`", "calls that they add"]
    texts = {"modes": markdown(["mode", "calls alone", *PROTOCOLS], rows), "protocols": markdown(header, added_calls)}
    write_texts(Path(out), texts | {"revisions": f"{revisions:.2g}"})


def _written(arguments: dict[str, object] | None) -> str:
    if arguments is None:
        return "not scored by it"
    return ", ".join(f"`{name}={str(value).lower()}`" for name, value in arguments.items()) or "none"


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("out", help="the page to write")
    main(parser.parse_args().out)
