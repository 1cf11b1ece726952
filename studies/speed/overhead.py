"""What do a solver, a scorer and elicitation cost over a bare Inspect task that makes the same model calls?

    python -m studies.speed.overhead

Ours is `urns`, scored by `brier`, which asks nothing more, or by `martingale`, which asks for beliefs. The bare tasks
hold the same conversations in the same words, with no trajectory, spans or records: `chain` is put together from
Inspect's own solvers (`prompt_template`, `user_message`, `generate`), `by hand` is one solver of a dozen lines. They
are scored by Inspect's `includes`, or by a scorer that sends the same probes and takes the `mean()` of one number. The
script stops if the tasks do not send the same messages. All run in one process, in turn, on a mock model: n = 300
questions x 3 epochs, the median of 5 runs each, after one run of each to warm up (imports, the first log). CPU time of
the process, not wall time. It varies with the load of the machine by a tenth and more; the number of Python function
calls does not.
"""

import tempfile
import zlib
from collections import Counter
from functools import partial
from itertools import count
from typing import Any, NamedTuple

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ChatMessageUser, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import Score, Scorer, Target, includes, mean, scorer
from inspect_ai.solver import Generate, Solver, TaskState, generate, prompt_template, solver, user_message

from studies.speed.timing import arguments, function_calls, in_turn, ratio
from truthgym.datasets.urns import UrnQuestion
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.scorers.beliefs.reader import PERCENT
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns

EPOCHS = 3
LOGS = tempfile.TemporaryDirectory()


class Setting(NamedTuple):
    steps: int
    """Of reasoning before the answer; 0 is `direct`."""
    scorers: dict[str, Any]
    calls: int
    """Of the model, a sample."""


SETTINGS = {
    "direct, brier": Setting(0, {"brier": {}}, 1),
    "chain_of_thought(4), brier": Setting(4, {"brier": {}}, 5),
    "direct, martingale": Setting(0, {"martingale": {"per": "trajectory"}}, 3),
    "chain_of_thought(4), martingale by step": Setting(4, {"martingale": {"per": "step"}}, 11),
}


@solver
def say() -> Solver:
    """Say each of the sample's prompts and hear the reply, and nothing else."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        prompts = [state.metadata[name] for name in sorted(state.metadata) if name.startswith("say_")]
        state.user_prompt.text = prompts[0]
        state = await generate(state)
        for prompt in prompts[1:]:
            state.messages.append(ChatMessageUser(content=prompt))
            state = await generate(state)
        return state

    return solve


@scorer(metrics=[mean()])
def probe(per: str) -> Scorer:
    """Send the probes that `martingale` sends, and keep the last number."""

    async def score(state: TaskState, target: Target) -> Score:
        question, messages = state.metadata["probe"], state.messages
        ends = [place for place, message in enumerate(messages, start=1) if message.role == "assistant"]
        requests: list[list[ChatMessage]] = [[ChatMessageUser(content=f"{state.input_text}\n\n{question}")]]
        requests += [[*messages[:end], ChatMessageUser(content=question)]
                     for end in (ends if per == "step" else ends[-1:])]  # fmt: skip
        replies = [await get_model().generate(request) for request in requests]
        return Score(value=float(replies[-1].completion) / 100)

    return score


def ours(setting: Setting, n: int) -> Task:
    task = urns(n=n, paradigms=setting.scorers)
    if setting.steps:
        task.solver = chain_of_thought(steps=setting.steps)
    return task


def bare(setting: Setting, n: int) -> dict[str, Task]:
    """The same questions, with what our solver says of each and the probe's wording in the metadata."""
    log = run(ours(setting, n), Counter(), epochs=1)
    prompts = {s.id: [m.text for m in s.messages if m.role == "user"] for s in log.samples or []}
    samples = [
        Sample(id=item.id, input=item.input, target=item.target,
               metadata={"probe": PROBE.format(proposition=item.metadata_as(UrnQuestion).proposition)}
               | {f"say_{turn}": text for turn, text in enumerate(prompts[item.id or ""])})
        for item in urns(n=n).dataset
    ]  # fmt: skip
    bare_task = partial(Task, dataset=MemoryDataset(samples), epochs=EPOCHS)
    if "martingale" in setting.scorers:
        return {"by hand": bare_task(solver=say(), scorer=probe(setting.scorers["martingale"]["per"]))}
    turns = [prompt_template("{say_0}"), *(user_message(f"{{say_{turn}}}") for turn in range(1, setting.calls))]
    chain = [part for turn in turns for part in (turn, generate())]
    return {"chain": bare_task(solver=chain, scorer=includes()), "by hand": bare_task(solver=say(), scorer=includes())}


def model(requests: Counter[str]) -> Model:
    """A mock with a belief for each question, which counts requests. Its answer to a probe wanders."""
    call = count()

    def reply(messages: list[ChatMessage], *_: object) -> ModelOutput:
        requests.update(["\n\n".join(f"{message.role}: {message.text}" for message in messages)])
        belief = 20 + zlib.crc32(messages[0].text.partition("?")[0].encode()) % 50
        probed = messages[-1].text.endswith(PERCENT)
        text = str(belief + next(call) % 11) if probed else f"I have thought about it. \\finalBeliefProb{{0.{belief}}}"
        output = ModelOutput.from_content("mockllm/model", text)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def run(task: Task, requests: Counter[str], epochs: int = EPOCHS) -> EvalLog:
    log = eval(task, model=model(requests), display="none", log_dir=LOGS.name, epochs=epochs)[0]
    assert log.status == "success", log.error
    return log


def compare(name: str, n: int, runs: int) -> None:
    setting = SETTINGS[name]
    tasks = {"ours": ours(setting, n), **bare(setting, n)}
    requests: dict[str, Counter[str]] = {label: Counter() for label in tasks}
    for label, task in tasks.items():  # this warms up, too
        run(task, requests[label])
        assert requests[label].keys() == requests["ours"].keys(), "the tasks do not send the same messages"
        assert requests[label].total() == setting.calls * n * EPOCHS
    steps = {label: partial(run, task, Counter()) for label, task in tasks.items()}
    seconds = in_turn(steps, runs)
    calls = {label: function_calls(step) for label, step in steps.items()}
    for label in list(tasks)[1:]:
        times, share = ratio(seconds["ours"], seconds[label]), calls["ours"] / calls[label]
        print(f"{name}, {setting.calls} call(s): ours / {label} = {times}; function calls {share:.2f}", flush=True)


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--settings", nargs="+", default=list(SETTINGS), choices=list(SETTINGS))
    args = parser.parse_args()
    for name in args.settings:
        compare(name, args.n, args.runs)
