"""Rollouts: samples of Inspect tasks run by the model in training. Each run of them is an Inspect eval with its log."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from inspect_ai import Epochs, eval
from inspect_ai.hooks import Hooks, SampleEnd, hooks
from inspect_ai.log import EvalSample
from inspect_ai.model import GenerateConfig, Model, ModelOutput
from inspect_ai.solver import SolverSpec

from truthgym.evallog.errors import bad_input
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.rollouts.batches import Batches
from truthgym.training.rollouts.questions import Questions
from truthgym.training.rollouts.sampling import Engine
from truthgym.training.rollouts.token_rows import Row, branches, no_gradient, single_turns, trainable_turns

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from truthgym.training.rollouts.policy import Turn

Key = tuple[int, str]
"""A sample: the place of its task, and its id."""


@dataclass(frozen=True)
class Sampling:
    """How the model in training is asked."""

    name: str
    """Of the model, for the log."""
    tokenizer: "PreTrainedTokenizerBase"
    ends: tuple[int, ...]
    """Ids of the tokens that end a reply."""
    seed: int
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    chat_template: str | None = None
    enable_thinking: bool | None = None
    context: int | None = None
    """Tokens that the model can read and write in all."""


class Uncached(Model):
    """A model whose replies never come from Inspect's cache: those were another's, before the last step."""

    async def generate(self, *args: Any, **kwargs: Any) -> ModelOutput:  # noqa: ANN401
        """Generate as ever, whatever a solver or scorer says of the cache."""
        return await super().generate(*args, **{**kwargs, "cache": False})


@dataclass(frozen=True)
class Made:
    """What a rollout is to a trainer."""

    rollout: Rollout
    row: Row


class _Collector(Hooks):
    """Takes each sample as it ends, so that its log need not be read back."""

    def __init__(self) -> None:
        self.batches: Batches | None = None
        self.samples: list[tuple[str, EvalSample]] = []
        self.ended: Callable[[], None] = lambda: None

    def enabled(self) -> bool:
        """Only while rollouts run."""
        return self.batches is not None

    async def on_sample_end(self, data: SampleEnd) -> None:
        """Keep the sample."""
        self.samples.append((data.eval_id, data.sample))
        self.ended()
        if self.batches is not None:
            await self.batches.ended()


_found: list[_Collector] = []


def _collector() -> _Collector:
    if not _found:

        @hooks(name="truthgym_rollouts", description="Takes the samples that a model in training has run.")
        class Collector(_Collector):
            def __init__(self) -> None:
                super().__init__()
                _found.append(self)

    return _found[0]


@dataclass
class Rollouts:
    """Runs samples of tasks by the model in training."""

    questions: Sequence[Questions]
    sampling: Sampling
    folder: Path
    """Where the logs go, a folder for each run."""
    solver: str | None = None
    solver_args: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, Any] = field(default_factory=dict)
    """Models of other roles, as `eval` takes them."""
    whole: bool = True
    """Whether a row is a conversation. Otherwise it is one reply."""
    ended: Callable[[], None] = lambda: None
    """Called as each sample ends."""

    def run(self, keys: Sequence[Key], engine: Engine, number: int, rank: tuple[int, ...] = ()) -> list[Made]:
        """Run each sample as often as it is named.

        Args:
            keys: The samples.
            engine: What generates.
            number: Of this run: it decides the random numbers, and the folder of the log.
            rank: Tells apart runs of one number: those of several processes, or several of one.

        Returns:
            One for each key, in order.

        Raises:
            BadInput: Every sample failed, a solver asks for another temperature than training does, or the chat
                template changes what was said earlier.
        """
        folder = place(self.folder, number)
        made: dict[Key, list[Made]] = {}
        counts = Counter(keys)
        for times in sorted(set(counts.values())):
            some = [key for key in counts if counts[key] == times]
            made |= self._eval(some, times, engine, number, rank, folder)
        taken: Counter[Key] = Counter()
        found = []
        for key in keys:
            found.append(made[key][taken[key]])
            taken[key] += 1
        return found

    def _eval(
        self, keys: Sequence[Key], times: int, engine: Engine, number: int, rank: tuple[int, ...], folder: Path
    ) -> dict[Key, list[Made]]:
        from truthgym.training.rollouts.policy import Policy

        by_task = {at: [name for task, name in keys if task == at] for at in sorted({task for task, _ in keys})}
        tasks = [self.questions[at].some(ids) for at, ids in by_task.items()]
        asked = self.sampling
        batches = Batches(engine, len(keys) * times)
        policy = Policy(
            asked.name, asked.tokenizer, batches, asked.ends, (asked.seed, number, *rank),
            asked.chat_template, asked.enable_thinking, asked.context,
        )  # fmt: skip
        config = GenerateConfig(
            max_tokens=asked.max_tokens,
            temperature=asked.temperature,
            top_p=asked.top_p,
            top_k=asked.top_k or None,
            max_connections=len(keys) * times,  # else Inspect would begin with few, and the others keep them waiting
        )
        args = dict(self.solver_args)
        with _collecting(batches, self.ended) as samples:
            logs = eval(
                tasks,
                model=Uncached(policy, config),
                model_roles=dict(self.roles),
                solver=SolverSpec(self.solver, args, args) if self.solver else None,
                epochs=Epochs(times),
                log_dir=str(folder),
                log_realtime=False,
                log_header_only=True,
                display="log",
                max_tasks=len(tasks),
                max_samples=len(keys) * times,
                fail_on_error=False,
                metadata={"rollouts": number, "part": list(rank)},
                tags=["rollouts"],
            )
        for log in logs:
            if log.status == "cancelled":
                raise KeyboardInterrupt
            if log.status != "success":
                raise bad_input(f"The rollouts of {log.eval.task} failed: {log.error.message if log.error else '?'}")
        _check(samples)
        named = {log.eval.eval_id: at for at, log in zip(by_task, logs, strict=True)}
        made: dict[Key, list[Made]] = {key: [] for key in keys}
        for eval_id, sample in sorted(samples, key=lambda told: told[1].epoch):
            key = named[eval_id], str(sample.id)
            made[key].append(self._made(sample, policy.turns.get(sample.uuid or "", {}), key, (number, *rank)))
        return made

    def _made(self, sample: EvalSample, turns: Mapping[str, "Turn"], key: Key, run: tuple[int, ...]) -> Made:
        """What a sample is to the trainer: the row that it gets gradient on, and what its reward is made of."""
        trainable = trainable_turns(sample, turns)
        for turn in trainable:
            if self.whole and turn.parted:
                raise turn.parted
            if turn.temperature != self.sampling.temperature:
                raise bad_input(
                    f"{self.questions[key[0]].name}: its solver asks the model at temperature {turn.temperature}, and "
                    f"training reckons with {self.sampling.temperature}; say --temperature {turn.temperature}"
                )
        rows = (branches if self.whole else single_turns)(trainable)
        if rows:
            # Of several conversations one is drawn: over many steps each has its turn.
            row = rows[Random(repr((self.sampling.seed, run, key, sample.epoch))).randrange(len(rows))]
        else:
            first = next(iter(turns.values()), None)
            row = no_gradient(first.prompt_ids if first else [], self.sampling.ends[0])
        rollout = Rollout(
            task=self.questions[key[0]].registered,
            sample_id=str(sample.id),
            epoch=sample.epoch,
            question=sample.input if isinstance(sample.input, str) else sample.input[-1].text,
            target=sample.target if isinstance(sample.target, str) else "\n".join(sample.target),
            metadata=sample.metadata,
            scores=sample.scores or {},
            answer=sample.output.completion,
            tokens=sum(len(turn.completion_ids) for turn in trainable),
            error=sample.error.message if sample.error else None,
        )
        return Made(rollout, row)


def place(folder: Path, number: int) -> Path:
    """Where the logs of a run lie."""
    return folder / f"step-{number:05d}"


def set_aside(folder: Path, number: int) -> list[Path]:
    """Move away the logs of runs from this one on: training goes back to where it began, and makes them anew."""
    moved = []
    for path in sorted(folder.glob("step-*")):
        if int(path.name.partition("-")[2]) >= number:
            aside = folder / "set_aside"
            aside.mkdir(exist_ok=True)
            there = next(
                aside / f"{path.name}-{i}" for i in range(1, 10_000) if not (aside / f"{path.name}-{i}").exists()
            )
            path.rename(there)
            moved.append(there)
    return moved


CANCELLED = "CancelledError("
"""How the error begins of a sample that Ctrl-C has ended: Inspect goes on where nothing else was under way."""


def _check(samples: Sequence[tuple[str, EvalSample]]) -> None:
    if any(sample.error and sample.error.message.startswith(CANCELLED) for _, sample in samples):
        raise KeyboardInterrupt
    told = [sample.error.message.strip() or "no reason is given" for _, sample in samples if sample.error]
    errors = Counter(message.splitlines()[-1] for message in told)
    if samples and sum(errors.values()) == len(samples):
        raise bad_input(f"Every one of {len(samples)} rollouts failed: {errors.most_common(1)[0][0]}")


@contextmanager
def _collecting(batches: Batches, ended: Callable[[], None]) -> Iterator[list[tuple[str, EvalSample]]]:
    collector = _collector()
    collector.batches, collector.samples, collector.ended = batches, [], ended
    try:
        yield collector.samples
    finally:
        collector.batches, collector.samples = None, []
