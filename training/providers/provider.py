"""What `truthgym train --provider` needs of a fine-tuning provider, and how a provider's errors are reported."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from truthgym.evallog.errors import bad_input

OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "openai": {
        "sft": ("n_epochs", "learning_rate_multiplier", "batch_size", "seed"),
        "dpo": ("n_epochs", "learning_rate_multiplier", "batch_size", "beta", "seed"),
        "reinforcement": ("n_epochs", "learning_rate_multiplier", "batch_size", "reasoning_effort",
                          "compute_multiplier", "eval_interval", "eval_samples", "seed"),
    },
    "together": {
        "sft": ("n_epochs", "learning_rate", "batch_size", "lora", "seed"),
        "dpo": ("n_epochs", "learning_rate", "batch_size", "beta", "lora", "seed"),
    },
}  # fmt: skip
"""The methods of each provider with their training options."""
DEFAULT_EPOCHS = 2
"""Epochs of `sft` and `dpo`, as in TruthSeekingGym. The providers' own defaults depend on the size of the dataset."""


@dataclass(frozen=True)
class JobSpec:
    """What to train, and how."""

    method: str
    model: str
    """The base model, by the provider's name."""
    dataset: Path
    """A folder that `truthgym convert` wrote."""
    options: dict[str, Any] = field(default_factory=dict)
    """Training options, see `OPTIONS`. Those not given are left to the provider, except `n_epochs`."""
    grader: dict[str, Any] | None = None
    """For reinforcement: the grader, as OpenAI's JSON."""
    suffix: str | None = None
    """Becomes part of the fine-tuned model's name."""

    def hyperparameters(self) -> dict[str, Any]:
        """The training options, with the default number of epochs for `sft` and `dpo`."""
        return ({} if self.method == "reinforcement" else {"n_epochs": DEFAULT_EPOCHS}) | self.options


@dataclass
class JobStatus:
    """The state of a job at the provider, and its outcome once it has ended."""

    status: str
    events: list[str] = field(default_factory=list)
    """The provider's recent messages about the job, oldest first."""
    failure: str | None = None
    """Why the job ended without a model, in the provider's words."""
    model: str | None = None
    """Once the job has succeeded: the model as `inspect eval --model` names it."""
    curve: list[dict[str, float]] = field(default_factory=list)
    """Rows with `step`, and `loss`, `eval_loss`, `reward`, `eval_reward` where known, in order of steps."""
    notes: list[str] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.model is not None or self.failure is not None


class FineTuningProvider(Protocol):
    """A provider, through its own client, which retries 429, 5xx and lost connections."""

    name: str
    transient: tuple[type[Exception], ...]
    """The client's errors that go away by themselves: no connection, too many requests, server errors."""
    errors: tuple[type[Exception], ...]
    """All errors that the client raises for the provider."""

    def check(self, spec: JobSpec) -> None:
        """Check the key, and the grader where the provider can, before anything is uploaded. Costs nothing."""

    def upload(self, path: Path) -> str:
        """Upload a file and return its id."""

    def create(self, spec: JobSpec, files: dict[str, str]) -> str:
        """Create the job from uploaded files (split to id) and return its id. A retry could create a second job."""

    def status(self, job: str) -> JobStatus:
        """Get the state of a job."""


@contextmanager
def translate_errors(provider: FineTuningProvider, action: str) -> Iterator[None]:
    """Turn a client's error into one sentence."""
    try:
        yield
    except provider.errors as error:
        problem = "is busy or cannot be reached for" if isinstance(error, provider.transient) else "refused"
        raise bad_input(f"{provider.name} {problem} {action}: {error_text(error)}") from None


def error_text(error: Exception) -> str:
    """The message of a client's error, with the parameter it refers to."""
    body = getattr(error, "body", None)
    details = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(details, dict) and details.get("message"):
        return f"{details['message']}" + (f" (parameter {details['param']})" if details.get("param") else "")
    return str(error)
