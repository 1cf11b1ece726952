"""What do elicitation and scoring add over a bare Inspect task that makes the same calls?

    python -m studies.speed.elicitation

First the calls and tokens: what `martingale` asks of a few urn questions with each of its settings, counted in the logs
of reference agents, beside the formula in its docstring and beside the lengths of what was sent. Then CPU time: the
bare task holds the same conversation in the same words (one solver written by hand), and its scorer sends the same
probes with `get_model().generate(...)` and takes the `mean()` of one number: no spans, no records, no trajectory. Both
run in one process, in turn, on a mock model, as in `overhead.py`: n = 300 questions x 3 epochs, the median of 5 runs
each, after one to warm up. CPU time of the process, and beside it the number of Python function calls, which is
steadier.
"""

import argparse
import tempfile
import zlib
from collections import Counter
from functools import partial
from itertools import count, product

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.model import ChatMessage, ChatMessageUser, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from studies.speed.overhead import say
from studies.speed.timing import function_calls, in_turn, ratio
from truthgym.datasets.urns import UrnQuestion
from truthgym.models.agents.lengths import count_tokens
from truthgym.scorers.beliefs.elicitation import PERCENT, PROBE
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns

EPOCHS = 3
LOGS = tempfile.TemporaryDirectory()
STEPS = {"trajectory": 0, "step": 4}
"""Turns of reasoning before the answer in each of the two settings; 0 is `direct`."""


@scorer(metrics=[mean()])
def probe(per: str) -> Scorer:
    """Send the probes that `martingale` sends, and keep the last number."""

    async def score(state: TaskState, target: Target) -> Score:
        asked, said = state.metadata["probe"], state.messages
        ends = [place for place, message in enumerate(said, start=1) if message.role == "assistant"]
        requests: list[list[ChatMessage]] = [[ChatMessageUser(content=f"{state.input_text}\n\n{asked}")]]
        requests += [[*said[:end], ChatMessageUser(content=asked)] for end in (ends if per == "step" else ends[-1:])]
        replies = [await get_model().generate(request) for request in requests]
        return Score(value=float(replies[-1].completion) / 100)

    return score


def ours(n: int, per: str, elicitor: str = "self", joint: bool = False) -> Task:
    task = urns(n=n, paradigms={"martingale": {"per": per, "elicitor": elicitor, "joint": joint}})
    if STEPS[per]:
        task.solver = chain_of_thought(steps=STEPS[per])
    return task


def bare(n: int, per: str) -> Task:
    """The same questions, with what our solver says of each in the metadata, and the probe's wording."""
    done = run(ours(n, per), model(), epochs=1)
    said = {s.id: [m.text for m in s.messages if m.role == "user"] for s in done.samples or []}
    samples = [
        Sample(
            id=i.id,
            input=i.input,
            target=i.target,
            metadata={"probe": PROBE.format(proposition=i.metadata_as(UrnQuestion).proposition)}
            | {f"say_{turn}": text for turn, text in enumerate(said[i.id or ""])},
        )
        for i in urns(n=n).dataset
    ]
    return Task(dataset=MemoryDataset(samples), solver=say(), scorer=probe(per), epochs=EPOCHS)


def model(heard: Counter[str] | None = None) -> Model:
    """A mock with a belief for each question. The number that it gives to a probe wanders from call to call."""
    call = count()

    def reply(messages: list[ChatMessage], *_: object) -> ModelOutput:
        if heard is not None:
            heard.update(["\n\n".join(f"{message.role}: {message.text}" for message in messages)])
        held = 20 + zlib.crc32(messages[0].text.partition("?")[0].encode()) % 50
        probed = messages[-1].text.endswith(PERCENT)
        said = str(held + next(call) % 11) if probed else f"I have thought about it. \\finalBeliefProb{{0.{held}}}"
        output = ModelOutput.from_content("mockllm/model", said)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def run(task: Task, model: Model, epochs: int = EPOCHS, score: bool = True) -> EvalLog:
    roles: dict[str, str | Model] = {"judge": "reference/judge"}
    log = eval(task, model=model, model_roles=roles, display="none", log_dir=LOGS.name, epochs=epochs, score=score)[0]
    assert log.status == "success", log.error
    return log


def compare(n: int, runs: int, per: str) -> None:
    made = {"ours": ours(n, per), "bare": bare(n, per)}
    heard: dict[str, Counter[str]] = {name: Counter() for name in made}
    for name, task in made.items():  # this warms up, too
        run(task, model(heard[name]))
    assert heard["ours"].keys() == heard["bare"].keys(), "the two tasks do not send the same"
    assert heard["ours"].total() == heard["bare"].total() == n * EPOCHS * (3 if per == "trajectory" else 11)
    ways = {name: partial(run, task, model()) for name, task in made.items()}
    spent = in_turn(ways, runs)
    counted = {name: function_calls(way) for name, way in ways.items()}
    times, counts = ratio(spent["ours"], spent["bare"]), counted["ours"] / counted["bare"]
    calls = heard["ours"].total() // (n * EPOCHS)
    print(f"per={per}, {calls} calls: ours / bare = {times}; function calls {counts:.2f}", flush=True)


def count_calls(n: int) -> None:
    """What `martingale` asks for each question and epoch: as counted in the logs, and as it should be."""
    agent = get_model("reference/bayesian")
    print("per         elicitor  joint  calls (formula)  tokens read (from lengths)  written (from lengths)")
    for per, steps in STEPS.items():
        solved = asked(run(ours(n, per), agent, epochs=1, score=False))
        turns = steps + 1
        of_model, of_judge = (2, 3) if per == "trajectory" else (1 + turns, 2 + turns)
        for elicitor, joint in product(("self", "judge", "both"), (False, True)):
            found = asked(run(ours(n, per, elicitor, joint), agent, epochs=1)) - solved
            formula = {"self": of_model, "judge": of_judge, "both": of_model + of_judge}[elicitor] + joint
            each = {name: number / n for name, number in found.items()}
            print(
                f"{per:10}  {elicitor:8}  {joint!s:5}  {each['calls']:5g} ({formula})"
                f"{each['read']:17.1f} ({each['read_by_length']:.1f})"
                f"{each['written']:18.1f} ({each['written_by_length']:.1f})",
                flush=True,
            )
            assert each["calls"] == formula
            assert found["read"] == found["read_by_length"]
            assert found["written"] == found["written_by_length"]


def asked(log: EvalLog) -> Counter[str]:
    """Calls and tokens of a run: what was used, and what follows from the lengths of requests and replies."""
    samples = read_eval_log(log.location, resolve_attachments=True).samples or []
    calls = [event for sample in samples for event in sample.events if isinstance(event, ModelEvent)]
    used = log.stats.model_usage.values()
    return Counter(
        calls=len(calls),
        read=sum(usage.input_tokens for usage in used),
        written=sum(usage.output_tokens for usage in used),
        read_by_length=sum(count_tokens("\n\n".join(message.text for message in call.input)) for call in calls),
        written_by_length=sum(count_tokens(call.output.completion) for call in calls),
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--per", nargs="+", default=list(STEPS), choices=list(STEPS))
    given = parser.parse_args()
    count_calls(n=5)
    for per in given.per:
        compare(given.n, given.runs, per)
