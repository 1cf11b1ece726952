"""What will a run cost? The model calls and tokens of a task, from a rehearsal with simulated agents.

truthgym cost truthgym/urns -T n=200 --solver truthgym/chain_of_thought --model openai/gpt-5.4-mini
"""

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from math import isnan
from typing import TYPE_CHECKING, Any

from truthgym.analysis.check import DIFFERENCES
from truthgym.analysis.tables.markdown import notes, table
from truthgym.analysis.tables.prices import price_of, prices_in
from truthgym.analysis.tables.setups import bare_name
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import group_of
from truthgym.models.agents.agent import Asks
from truthgym.models.agents.lengths import count_tokens
from truthgym.scorers.statistics.power import planned_mde
from truthgym.tasks.domain_task import SCORER_BY_NAME

if TYPE_CHECKING:
    import pandas as pd
    from inspect_ai import Task
    from inspect_ai.log import EvalLog
    from inspect_ai.model import ChatMessage, Model
    from inspect_ai.solver import Solver

TOO_SMALL = ("Too small to detect", "A difference of")
"""How the note begins that says that a run is too small for its purpose."""
FILLER = "so, "
"""Of the length that counts as one token."""
STAND_INS = {"judge": "reference/judge", "grader": "reference/judge", "interviewer": "reference/interviewer",
             "reader": "reference/judge"}  # fmt: skip
"""The simulated agent that takes a role. In every other role it is `reference/bayesian`."""


def estimate(
    task: "Task",
    models: Mapping[str, Sequence[str]],
    *,
    solver: "Solver | None" = None,
    epochs: int | None = None,
    limit: int | None = None,
    questions: int = 5,
    reply_tokens: int = 0,
    prices: str = "",
    effect: float = 0.0,
) -> "pd.DataFrame":
    """Estimate the model calls and tokens of a run by rehearsing a few of its questions with simulated agents."""
    import pandas as pd
    import rich
    from inspect_ai import eval
    from inspect_ai.event import ModelEvent
    from inspect_ai.model import ModelUsage

    price_list = prices_in(prices)
    samples = list(task.dataset)[:limit]
    groups: dict[str, list[str | int]] = {}
    events = {}
    for number, source in enumerate(samples, start=1):
        identity, facts = number if source.id is None else source.id, source.metadata or {}  # as Inspect numbers them
        question = str(facts.get("question") or identity)
        groups.setdefault(question, []).append(identity)
        events[question] = str(facts.get("event") or question)
    step = max(1, len(groups) // questions)
    rehearsed = list(groups.values())[::step][:questions]
    console = rich.get_console()
    quiet, console.quiet = console.quiet, True  # Inspect itself makes the first eval of a process quiet only
    ours = bool(samples and "proposition" in (samples[0].metadata or {}))
    with tempfile.TemporaryDirectory() as folder:
        [log] = eval(
            task,
            model=_stand_in("model", 0, ours, reply_tokens),
            model_roles={role: [_stand_in(role, i, ours) for i in range(len(names))]
                         for role, names in models.items() if role != "model"},
            solver=solver,
            epochs=epochs,
            sample_id=[sample_id for group in rehearsed for sample_id in group],
            log_dir=folder,
            log_realtime=False,
            display="none",
        )  # fmt: skip
        console.quiet = quiet  # or the caller's next error would not be printed
        if log.status != "success" or not log.samples:
            reason = log.error.message if log.error else log.status
            raise BadInput(f"The rehearsal failed: {reason}")
        answered, usage = Counter[str](), dict[str, list[tuple[int, int]]]()
        for sample in log.samples:
            asked = [event for event in sample.events if isinstance(event, ModelEvent) and event.cache != "read"]
            answered[group_of(sample.metadata, sample.id)] += len(asked)
            for event in asked:
                used = event.output.usage or ModelUsage()
                usage.setdefault(event.role or "model", []).append((used.input_tokens, used.output_tokens))
    once = _calls_of_a_run(log, models)
    share = len(samples) / sum(map(len, rehearsed))
    rows = []
    for role in sorted(usage, key=lambda role: (role != "model", role)):
        calls, names = (len(usage[role]) - once[role]) * share + once[role], models.get(role, ["?"])
        read, written = (sum(tokens) / len(usage[role]) * calls for tokens in zip(*usage[role], strict=True))
        money = sum(price_of(price_list.get(name), read, written) for name in names) / len(names)
        rows.append((role, ", ".join(names), calls, read, written, money))
    frame = pd.DataFrame(rows, columns=["role", "model", "calls", "tokens_in", "tokens_out", "money"])
    mde = {sd: planned_mde(sd, list(events.values())) for sd in DIFFERENCES}
    varies = max(answered.values()) - min(answered.values()) > sum(once.values())
    notes = [*_caveats(log, varies, reply_tokens, _repairs(log) * share), *_too_small(mde, effect)]
    frame.attrs |= {"samples": len(samples), "epochs": log.eval.config.epochs or 1, "mde": mde, "notes": notes}
    return frame


def estimate_text(frame: "pd.DataFrame") -> str:
    samples, epochs = frame.attrs["samples"], frame.attrs["epochs"]
    counts = {name: [f"{number:,.0f}" for number in frame[name]] for name in ("calls", "tokens_in", "tokens_out")}
    columns = ["role", "model", *counts] + ["money"] * bool(frame["money"].notna().any())
    labels = {"tokens_in": "tokens read", "tokens_out": "tokens written", "money": "dollars"}
    total = (
        f"{samples:,} samples x {epochs} epochs = {samples * epochs:,} answers: {frame['calls'].sum():,.0f} calls, "
        f"about {frame['tokens_in'].sum():,.0f} tokens read and {frame['tokens_out'].sum():,.0f} written"
    )
    money = f", {frame['money'].sum():,.2f} dollars" * bool(frame["money"].notna().all())
    size = mde_text(frame.attrs["mde"])
    return f"{table(frame.assign(**counts), columns, labels, digits=2)}\n{total}{money}. {size}\n{notes(frame)}"


def mde_text(mde: Mapping[float, float]) -> str:
    """What so many questions can tell, in one sentence."""
    few, many = (mde[sd] for sd in DIFFERENCES)
    if isnan(few):
        return "So few events tell nothing of a difference between two models."
    return (
        f"Two models whose mean scores (from 0 to 1, as Brier) differ by {few:.2g} if they answer much alike, "
        f"{many:.2g} if not, are told apart with probability 0.8."
    )


def _too_small(mde: Mapping[float, float], effect: float) -> list[str]:
    """A warning if a run is too small for the difference that it is to detect."""
    if not effect or mde[DIFFERENCES[1]] <= effect:
        return []
    small = f"{TOO_SMALL[0]} a difference of {effect:g}: "
    if isnan(mde[DIFFERENCES[0]]):
        return [f"{small}give it more questions."]
    few, many = ((mde[sd] / effect) ** 2 for sd in DIFFERENCES)
    if few <= 1:
        more = f"{many:.1f} times as many questions do also if they answer differently."
        return [f"{TOO_SMALL[1]} {effect:g} shows only if the two models answer much alike; {more}"]
    return [f"{small}that takes {few:.1f} to {many:.1f} times as many questions."]


def _calls_of_a_run(log: "EvalLog", models: Mapping[str, Sequence[str]]) -> Counter[str]:
    """Calls that a run makes once, whatever the number of questions, by role."""
    once = Counter[str]()
    for scorer in log.eval.scorers or []:
        declaration, options = SCORER_BY_NAME.get(bare_name(scorer.name)), scorer.options or {}
        roles = declaration.roles(**options) if declaration else ()
        if declaration and roles:
            once[roles[0]] += declaration.calls(**options)[1] * len(models.get(roles[0], [""]))
    return once


def _repairs(log: "EvalLog") -> int:
    """Replies of a rehearsal that would be asked for once more if no belief could be read in them."""
    from inspect_ai.event import ModelEvent

    repairing = {bare_name(scorer.name): (scorer.options or {}).get("repair", 1) for scorer in log.eval.scorers or []}
    stated = any(repairing.get(name) for name in ("brier", "sycophantic_reasoning"))
    probes = 0
    for sample in log.samples or []:
        asked = [event for event in sample.events if isinstance(event, ModelEvent) and event.input]
        about = [(event.input[-1].metadata or {}).get("belief", "") for event in asked]
        probes += sum(bool(name) and not name.endswith(("(token)", "(reader)")) for name in about)
    return stated * len(log.samples or []) + (probes if any(repairing.values()) else 0)


def _caveats(log: "EvalLog", varies: bool, reply_tokens: int, repairs: float) -> list[str]:
    """What makes the estimate inexact."""
    solvers = {bare_name(step.solver) for step in log.plan.steps}
    asks_more = sorted(solvers & {"run_agent", "length_control"})
    readers = any((scorer.options or {}).get("reader") for scorer in log.eval.scorers or [])
    return [
        *[f"`{name}` makes as many calls as a reply needs: here a simulated agent's." for name in asks_more],
        *[f"A reply without a readable belief takes one more call, at most {repairs:,.0f} (`repair=0`: none)."]
        * bool(repairs),
        *["With `reader=true` each answer that cannot be read otherwise takes one more call."] * readers,
        *["Questions take different numbers of calls: the total is a mean of those rehearsed."] * varies,
        *["Tokens written are a simulated agent's, whose replies are short; give --reply-tokens."] * (not reply_tokens),
    ]


def _stand_in(role: str, number: int, ours: bool, reply_tokens: int = 0) -> "Model":
    """A simulated agent that takes a role in the rehearsal."""
    from inspect_ai.model import Model, ModelOutput, ModelUsage, get_model

    def reply_of(conversation: "list[ChatMessage]", text: str) -> ModelOutput:
        output = ModelOutput.from_content("rehearsal", text)
        read, written = count_tokens("".join(message.text for message in conversation)), count_tokens(text)
        output.usage = ModelUsage(input_tokens=read, output_tokens=written, total_tokens=read + written)
        return output

    if not ours:  # a reference agent knows the questions of Truthgym's tasks only
        reply = FILLER * max(reply_tokens, 1)
        return get_model(
            "mockllm/model", custom_outputs=lambda conversation, *_: reply_of(conversation, reply), memoize=False
        )
    model: Model = get_model(STAND_INS.get(role, "reference/bayesian"), seed=number, memoize=False)
    generate = model.api.generate

    async def padded(input: "list[ChatMessage]", *others: Any, **named: Any) -> ModelOutput:
        output = await generate(input, *others, **named)
        assert isinstance(output, ModelOutput)  # a reference agent gives no record of the call with it
        missing = reply_tokens - count_tokens(output.completion)
        if missing <= 0 or Asks.PERCENT in input[-1].text or output.message.tool_calls:
            return output
        body, _, answer = output.completion.rpartition("\n\n")
        return reply_of(input, f"{body}\n\n{FILLER * missing}\n\n{answer}")

    if reply_tokens:
        model.api.generate = padded  # type: ignore[method-assign]
    return model
