"""Rollouts: samples of Inspect tasks, run by the model in training. Each run is an Inspect eval with its own log.

A rollout becomes a row of tokens for the trainer: its replies, with a mask of the tokens that get gradient.
"""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from inspect_ai import Epochs, Task, eval
from inspect_ai.event import ModelEvent
from inspect_ai.hooks import Hooks, SampleEnd, hooks
from inspect_ai.log import EvalLog, EvalSample
from inspect_ai.model import GenerateConfig, Model, ModelOutput
from inspect_ai.solver import SolverSpec
from inspect_ai.util import Store

from truthgym.datasets.errors import BadInput
from truthgym.solvers.trajectory import recorded_steps
from truthgym.training.reward_functions.rollout import Rollout
from truthgym.training.rollouts.questions import Questions
from truthgym.training.rollouts.sampling import Batcher, Engine

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from truthgym.training.rollouts.policy import Policy, SampledReply

Key = tuple[int, str]
"""Identifies a sample: the index of its task, and its id."""
CANCELLED = "CancelledError("
"""Start of the error of a sample that Ctrl-C ended: Inspect's eval still succeeds if no other sample was running."""


@dataclass(frozen=True)
class Sampling:
    """How the model in training is sampled."""

    name: str
    """The model's name in the log."""
    tokenizer: "PreTrainedTokenizerBase"
    seed: int
    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    enable_thinking: bool | None = None


class NoCacheModel(Model):
    """A model that never uses Inspect's cache, which would return replies of the model before the last step."""

    async def generate(self, *args: Any, **kwargs: Any) -> ModelOutput:
        """Generate, overriding the `cache` argument of solvers and scorers."""
        return await super().generate(*args, **{**kwargs, "cache": False})


@dataclass(frozen=True)
class TokenRow:
    """One row of a training batch."""

    prompt_ids: list[int]
    completion_ids: list[int]
    mask: list[int]
    """1 for tokens that get gradient: those of the model's trainable replies. One entry per token of the completion."""
    logprobs: list[float]
    """Log-probability of each token when it was drawn; 0 where the mask is 0."""


@dataclass(frozen=True)
class TrainingSample:
    """A rollout, and the tokens that the trainer gets for it."""

    rollout: Rollout
    row: TokenRow


_COLLECT: ContextVar[Callable[[SampleEnd], Awaitable[None]] | None] = ContextVar("truthgym_collect", default=None)
"""Receives the samples of the current eval as they end, so that its log does not have to be read back."""


@hooks(name="truthgym_rollouts", description="Passes finished samples of rollouts to the trainer.")
class _CollectorHooks(Hooks):
    """Inspect has one instance of each hook per process; the receiver of the current eval is a context variable."""

    def enabled(self) -> bool:
        return _COLLECT.get() is not None

    async def on_sample_end(self, data: SampleEnd) -> None:
        if collect := _COLLECT.get():
            await collect(data)


@dataclass(frozen=True)
class Rollouts:
    """Runs samples of tasks with the model in training."""

    questions: Sequence[Questions]
    sampling: Sampling
    folder: Path
    """Folder of the logs, with a sub-folder per step."""
    solver: str | None = None
    """In place of the tasks' own."""
    solver_args: Mapping[str, Any] = field(default_factory=dict)
    roles: Mapping[str, Any] = field(default_factory=dict)
    """Models of other roles, as `eval` takes them."""
    whole_conversations: bool = True
    """Whether a row is a conversation; otherwise it is one reply."""
    on_sample_end: Callable[[], None] = lambda: None

    def run(self, keys: Sequence[Key], engine: Engine, step: int, rank: tuple[int, ...] = ()) -> list[TrainingSample]:
        """Run each sample as many times as its key occurs."""
        counts = Counter(keys)
        samples: dict[Key, list[TrainingSample]] = {}
        for epochs in sorted(set(counts.values())):
            samples |= self._run_epochs([key for key in counts if counts[key] == epochs], epochs, engine, (step, *rank))
        by_key = {key: iter(runs) for key, runs in samples.items()}
        return [next(by_key[key]) for key in keys]

    def _run_epochs(
        self, keys: Sequence[Key], epochs: int, engine: Engine, run: tuple[int, ...]
    ) -> dict[Key, list[TrainingSample]]:
        """Run different samples, each for the same number of epochs, in one eval."""
        from truthgym.training.rollouts.policy import Policy

        sampling = self.sampling
        batcher = Batcher(engine, len(keys) * epochs)
        policy = Policy(
            sampling.name, sampling.tokenizer, batcher, (sampling.seed, *run), enable_thinking=sampling.enable_thinking
        )
        ended: list[SampleEnd] = []

        async def collect(data: SampleEnd) -> None:
            ended.append(data)
            self.on_sample_end()
            await batcher.sample_ended()

        numbers = sorted({task for task, _ in keys})
        tasks = [self.questions[task].subset([name for at, name in keys if at == task]) for task in numbers]
        token = _COLLECT.set(collect)
        try:
            logs = self._eval(tasks, policy, epochs, batcher.samples, run)
        finally:
            _COLLECT.reset(token)
        _check(logs, [data.sample for data in ended])
        task_of = {log.eval.eval_id: task for task, log in zip(numbers, logs, strict=True)}
        if self.whole_conversations:
            _check_divergence(
                [trainable_replies(data.sample, policy.replies.get(data.sample.uuid or "", {})) for data in ended]
            )
        samples: dict[Key, list[TrainingSample]] = {key: [] for key in keys}
        for data in sorted(ended, key=lambda data: data.sample.epoch):
            key = task_of[data.eval_id], str(data.sample.id)
            samples[key].append(self._training_sample(data.sample, policy, key, run))
        return samples

    def _eval(
        self, tasks: list[Task], policy: "Policy", epochs: int, samples: int, run: tuple[int, ...]
    ) -> list[EvalLog]:
        step, *rank = run
        args = dict(self.solver_args)
        config = GenerateConfig(
            max_tokens=self.sampling.max_tokens,
            temperature=self.sampling.temperature,
            top_p=self.sampling.top_p,
            top_k=self.sampling.top_k or None,
            max_connections=samples,  # Inspect would start with few, and a batch waits for all samples
        )
        return eval(
            tasks,
            model=NoCacheModel(policy, config),
            model_roles=dict(self.roles),
            solver=SolverSpec(self.solver, args, args) if self.solver else None,
            epochs=Epochs(epochs),
            log_dir=str(step_folder(self.folder, step)),
            log_realtime=False,
            log_header_only=True,
            display="log",
            log_level="error",  # not the scorers' advice, once for each task and step
            max_tasks=len(tasks),
            max_samples=samples,
            fail_on_error=False,
            metadata={"rollouts": step, "part": rank},
            tags=["rollouts"],
        )

    def _training_sample(self, sample: EvalSample, policy: "Policy", key: Key, run: tuple[int, ...]) -> TrainingSample:
        questions = self.questions[key[0]]
        replies = policy.replies.get(sample.uuid or "", {})
        trainable = trainable_replies(sample, replies)
        for reply in trainable:
            if reply.temperature != self.sampling.temperature:
                raise BadInput(
                    f"{questions.name}: its solver samples at temperature {reply.temperature}, and training assumes "
                    f"{self.sampling.temperature}; use --temperature {reply.temperature}"
                )
        rows = conversation_rows(trainable) if self.whole_conversations else reply_rows(trainable)
        if rows:
            # One of several rows is drawn at random, so that over many steps each of them is trained.
            row = rows[Random(repr((self.sampling.seed, run, key, sample.epoch))).randrange(len(rows))]
        else:
            first = next(iter(replies.values()), None)
            row = masked_row(first.prompt_ids if first else [], policy.batcher.engine.end_ids[0])
        rollout = Rollout(
            task=questions.registered,
            sample_id=str(sample.id),
            epoch=sample.epoch,
            question=sample.input if isinstance(sample.input, str) else sample.input[-1].text,
            target=sample.target if isinstance(sample.target, str) else "\n".join(sample.target),
            metadata=sample.metadata,
            scores=sample.scores or {},
            answer=sample.output.completion,
            tokens=sum(len(reply.completion_ids) for reply in trainable),
            error=sample.error.message if sample.error else None,
            call_failed=bool(sample.error)
            and any(isinstance(event, ModelEvent) and event.error for event in sample.events),
        )
        return TrainingSample(rollout, row)


def trainable_replies(sample: EvalSample, replies: Mapping[str, "SampledReply"]) -> list["SampledReply"]:
    """The trainable steps of a recorded trajectory, else all replies of the conversation, as they were generated."""
    steps = recorded_steps(Store(sample.store))
    if steps:
        trainable = {step.message_id for step in steps if step.trainable}
    else:
        trainable = {message.id for message in sample.messages if message.role == "assistant"}
    return [reply for reply in replies.values() if reply.message_id in trainable and reply.completion_ids]


def conversation_rows(replies: Sequence["SampledReply"]) -> list[TokenRow]:
    """One row per conversation: all its trainable replies, with the messages in between masked."""
    trainable = {reply.message_id for reply in replies}
    chains = {reply.message_id: _chain(reply) for reply in replies}
    continued = {earlier.message_id for chain in chains.values() for earlier in chain[:-1]}
    return [_row(chain, trainable) for last, chain in chains.items() if last not in continued]


def reply_rows(replies: Sequence["SampledReply"]) -> list[TokenRow]:
    """One row per trainable reply, with the whole conversation before it as the prompt."""
    return [_row([reply], {reply.message_id}) for reply in replies]


def masked_row(prompt_ids: Sequence[int], end_id: int) -> TokenRow:
    """A row without gradient, for a rollout without a trainable reply."""
    return TokenRow(list(prompt_ids) or [end_id], [end_id], [0], [0.0])


def _chain(reply: "SampledReply") -> list["SampledReply"]:
    """The replies of a conversation up to this one, first to last."""
    chain = [reply]
    while chain[0].previous is not None:
        chain.insert(0, chain[0].previous)
    return chain


def _row(chain: Sequence["SampledReply"], trainable: set[str]) -> TokenRow:
    first = next(reply for reply in chain if reply.message_id in trainable)
    start = len(first.prompt_ids)
    ids = [*chain[-1].prompt_ids, *chain[-1].completion_ids]
    mask, logprobs = [0] * len(ids), [0.0] * len(ids)
    for reply in chain:
        if reply.message_id in trainable:
            place = slice(len(reply.prompt_ids), len(reply.prompt_ids) + len(reply.completion_ids))
            mask[place] = [1] * len(reply.completion_ids)
            logprobs[place] = reply.logprobs
    return TokenRow(ids[:start], ids[start:], mask[start:], logprobs[start:])


def step_folder(folder: Path, step: int) -> Path:
    """Folder of a step's logs."""
    return folder / f"step-{step:05d}"


def archive_steps_from(folder: Path, step: int) -> list[Path]:
    """Move the logs of this and later steps to `set_aside/`: training resumes before them and will repeat them."""
    archive = folder / "set_aside"
    moved = []
    for path in sorted(folder.glob("step-*")):
        if int(path.name.partition("-")[2]) >= step:
            archive.mkdir(exist_ok=True)
            names = (archive / f"{path.name}-{i}" for i in range(1, 10_000))
            moved.append(path.rename(next(name for name in names if not name.exists())))
    return moved


def _check_divergence(samples: Sequence[Sequence["SampledReply"]]) -> None:
    """Raise if no conversation continues from its own tokens; a few may diverge under any template, and become rows."""
    replies = [reply for sample in samples for reply in sample]
    reasons = [reply.divergence for reply in replies if reply.divergence]
    if reasons and not any(reply.previous for reply in replies):
        raise BadInput(reasons[0])


def _check(logs: Sequence[EvalLog], samples: Sequence[EvalSample]) -> None:
    """Raise if an eval was cancelled or failed, or if all samples failed."""
    for log in logs:
        if log.status == "cancelled":
            raise KeyboardInterrupt
        if log.status != "success":
            raise BadInput(f"The rollouts of {log.eval.task} failed: {log.error.message if log.error else '?'}")
    errors = [sample.error.message for sample in samples if sample.error]
    if any(error.startswith(CANCELLED) for error in errors):
        raise KeyboardInterrupt
    reasons = Counter((error.strip() or "no reason is given").splitlines()[-1] for error in errors)
    if samples and len(errors) == len(samples):
        raise BadInput(f"All {len(samples)} rollouts failed: {reasons.most_common(1)[0][0]}")
