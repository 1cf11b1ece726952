"""What fine-tuning asks of a vendor, and how a vendor's errors are told."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.pricing import Quote

EPOCHS = 2
"""Of supervised and preference fine-tuning, unless said: TruthSeekingGym's. Vendors' own defaults go by size."""
TAKEN: dict[str, tuple[str, ...]] = {
    "openai sft": ("n_epochs", "learning_rate_multiplier", "batch_size", "seed"),
    "openai dpo": ("n_epochs", "learning_rate_multiplier", "batch_size", "beta", "seed"),
    "openai reinforcement": (
        "n_epochs",
        "learning_rate_multiplier",
        "batch_size",
        "reasoning_effort",
        "compute_multiplier",
        "eval_interval",
        "eval_samples",
        "seed",
    ),
    "together sft": ("n_epochs", "learning_rate", "batch_size", "lora", "seed"),
    "together dpo": ("n_epochs", "learning_rate", "batch_size", "beta", "lora", "seed"),
}
"""Options that change the result, by vendor and method."""


@dataclass(frozen=True)
class Order:
    """What is to be trained, and how."""

    method: str
    """`sft`, `dpo` or `reinforcement`."""
    model: str
    """The vendor's name of the base."""
    dataset: Path
    options: dict[str, Any] = field(default_factory=dict)
    """What changes the result, under the names that the vendor's client has: n_epochs, batch_size, seed, ..."""
    grader: dict[str, Any] | None = None
    """Of reinforcement: OpenAI's JSON."""
    suffix: str | None = None
    """Of the fine-tuned model's name."""
    price: float | None = None
    """Dollars for a million trained tokens, or for an hour of reinforcement."""

    @property
    def epochs(self) -> int:
        return int(self.options.get("n_epochs", EPOCHS))


@dataclass
class Look:
    """How far a job is."""

    status: str
    """In the vendor's words."""
    model: str | None = None
    """The fine-tuned model, once the job has succeeded."""
    failure: str | None = None
    """Why the job has ended without one, in the vendor's words."""
    news: list[str] = field(default_factory=list)
    """What the vendor reported since the last look."""
    step: int | None = None
    steps: int | None = None
    losses: dict[str, float] = field(default_factory=dict)
    """The last `loss` and `eval_loss` that were reported."""


class Vendor(Protocol):
    """What a vendor's client does for a job. Everything else is the same for all."""

    name: str
    passing: tuple[type[Exception], ...]
    """Errors that pass by themselves: no connection, too many requests, the vendor's own."""
    refused: tuple[type[Exception], ...]
    """All errors with which a vendor answers."""

    quotes_files: bool
    """Whether its estimates are of uploaded files."""

    def check(self, order: Order) -> None:
        """Refuse what the vendor can tell to be wrong before anything is uploaded."""

    def upload(self, path: Path) -> str:
        """Upload a file; its id."""

    def find_file(self, path: Path) -> str | None:
        """The id of a file that was uploaded under this name."""

    def quote(self, order: Order, files: dict[str, str], poll: float) -> Quote | None:
        """The vendor's own estimate; None where it gives none."""

    def create(self, order: Order, files: dict[str, str], token: str) -> str:
        """Create the job, marked by a token; its id. Not repeated by the client: see `find_job`."""

    def find_job(self, token: str) -> str | None:
        """The id of the job that was created with this token."""

    def look(self, job: str) -> Look:
        """How far a job is."""

    def result(self, job: str) -> tuple[str, list[dict[str, float]], list[str]]:
        """Of a job that has succeeded: how `inspect eval --model` names it, its curve, sentences for the card."""


@contextmanager
def asking(vendor: Vendor, what: str, passes: bool = False) -> Iterator[None]:
    """Say in one sentence what a vendor refused, or that it could not be reached.

    Args:
        vendor: The vendor.
        what: What it is asked, to follow "refused".
        passes: Whether errors that pass by themselves are left to the caller.

    Raises:
        BadInput: In place of the client's errors.
    """
    try:
        yield
    except vendor.refused as error:
        if isinstance(error, vendor.passing):
            if passes:
                raise
            raise bad_input(
                f"{vendor.name} could not be reached, or was too busy: {words(error)}. Give the same command again "
                "later: it goes on from here, and nothing is sent twice"
            ) from None
        raise bad_input(f"{vendor.name} refused {what}: {words(error)}") from None


def words(error: Exception) -> str:
    """What an error of a vendor's client says, with the parameter that it blames."""
    body = getattr(error, "body", None)
    told = body.get("error", body) if isinstance(body, dict) else None
    if isinstance(told, dict) and told.get("message"):
        return f"{told['message']}" + (f" (parameter {told['param']})" if told.get("param") else "")
    return str(error)
