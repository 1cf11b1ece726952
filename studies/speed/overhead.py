"""What do our solver and scorer cost over a bare Inspect task that makes the same model calls?

    python -m studies.speed.overhead

Ours is `urns` with the one paradigm `brier`, which asks nothing more. Two bare tasks hold the same conversations in the
same words, with no trajectory and Inspect's own `includes` scorer: `chain` is put together from Inspect's own solvers
(`prompt_template`, `user_message`, `generate`), `by hand` is one solver of a dozen lines. The script stops if the tasks
do not send the same messages. All run in one process, in turn, on a mock model: n = 300 questions x 3 epochs, the
median of 5 runs each, after one run of each to warm up (imports, the first log). CPU time of the process, not wall
time. It varies with the load of the machine by a tenth and more; the number of Python function calls does not.
"""

import argparse
import tempfile
from collections import Counter
from functools import partial

from inspect_ai import Task, eval
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageUser, Model, ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import includes
from inspect_ai.solver import Generate, Solver, TaskState, generate, prompt_template, solver, user_message

from studies.speed.timing import function_calls, in_turn, ratio
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.tasks.worlds import urns

REPLY = r"I have thought about it. \finalBeliefProb{0.6}"


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


def by_hand(n: int, number: int) -> Task:
    return Task(dataset=prompts(n, number), solver=say(), scorer=includes(), epochs=3)


def chain(n: int, number: int) -> Task:
    turns = [prompt_template("{say_0}"), *(user_message(f"{{say_{turn}}}") for turn in range(1, number))]
    solvers = [part for turn in turns for part in (turn, generate())]
    return Task(dataset=prompts(n, number), solver=solvers, scorer=includes(), epochs=3)


def prompts(n: int, number: int) -> MemoryDataset:
    """The questions, with what our solver would say of each in the metadata."""
    log = eval(ours(n, number), model=model(), display="none", log_dir=tempfile.mkdtemp(), epochs=1, log_realtime=False)
    said = {s.id: [m.text for m in s.messages if m.role == "user"] for s in log[0].samples or []}
    return MemoryDataset(
        [
            Sample(
                id=i.id,
                input=i.input,
                target="0.6",
                metadata={f"say_{t}": text for t, text in enumerate(said[i.id or ""])},
            )
            for i in urns(n=n, paradigms="brier").dataset
        ]
    )


def ours(n: int, number: int) -> Task:
    task = urns(n=n, paradigms="brier")
    if number > 1:
        task.solver = chain_of_thought(steps=number - 1)
    return task


def model(heard: Counter[tuple[str, ...]] | None = None) -> Model:
    """A mock model. It counts the conversations that it is sent in `heard`, if that is given."""

    def reply(messages: list[ChatMessage], *_: object) -> ModelOutput:
        if heard is not None:
            heard.update([tuple(message.text for message in messages)])
        output = ModelOutput.from_content("mockllm/model", REPLY)
        output.usage = ModelUsage(input_tokens=100, output_tokens=10, total_tokens=110)
        return output

    return get_model("mockllm/model", custom_outputs=reply, memoize=False)


def run(task: Task, heard: Counter[tuple[str, ...]] | None = None) -> None:
    with tempfile.TemporaryDirectory() as logs:
        log = eval(task, model=model(heard), display="none", log_dir=logs)[0]
    assert log.status == "success", log.error


def compare(n: int, runs: int, number: int) -> None:
    made = {"ours": ours(n, number), "chain": chain(n, number), "by hand": by_hand(n, number)}
    heard: dict[str, Counter[tuple[str, ...]]] = {name: Counter() for name in made}
    for name, task in made.items():
        run(task, heard[name])
    assert heard["ours"] == heard["chain"] == heard["by hand"], "the tasks do not send the same messages"
    assert heard["ours"].total() == number * n * 3
    ways = {name: partial(run, task) for name, task in made.items()}
    spent = in_turn(ways, runs)
    counted = {name: function_calls(way) for name, way in ways.items()}
    for name in ("chain", "by hand"):
        times, counts = ratio(spent["ours"], spent[name]), counted["ours"] / counted[name]
        print(f"{number} call(s): ours / {name} = {times}; function calls {counts:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=300)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--calls", type=int, nargs="+", default=[1, 5], help="1: direct. k: chain_of_thought(k - 1)")
    given = parser.parse_args()
    for number in given.calls:
        compare(given.n, given.runs, number)
