"""Fine-tuning at OpenAI, or at another service with its API: the client reads OPENAI_API_KEY and OPENAI_BASE_URL."""

import base64
import binascii
import csv
import io
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.provider import JobSpec, JobStatus

if TYPE_CHECKING:
    from openai import OpenAI

METHODS = {"sft": "supervised", "dpo": "dpo", "reinforcement": "reinforcement"}
CURVE = {
    "train_loss": "loss",
    "valid_loss": "eval_loss",
    "full_valid_loss": "eval_loss",
    "train_mean_reward": "reward",
    "train_reward_mean": "reward",
    "valid_reward_mean": "eval_reward",
    "valid_mean_reward": "eval_reward",
    "full_valid_mean_reward": "eval_reward",
}
"""Columns of a result file with their names in the card's curve. Of two with one name, the later one is preferred."""


class OpenAIProvider:
    """OpenAI, through its own client."""

    name = "OpenAI"

    def __init__(self) -> None:
        from openai import APIConnectionError, APIError, InternalServerError, RateLimitError

        self.transient: tuple[type[Exception], ...] = (APIConnectionError, RateLimitError, InternalServerError)
        self.errors: tuple[type[Exception], ...] = (APIError,)

    @cached_property
    def client(self) -> "OpenAI":
        """The client."""
        from openai import OpenAI, OpenAIError

        try:
            return OpenAI()
        except OpenAIError as error:
            raise bad_input(f"OpenAI's client cannot be used: {error} Set OPENAI_API_KEY to your key") from None

    def check(self, spec: JobSpec) -> None:
        """Check the key, and let OpenAI check the grader."""
        from openai import NotFoundError

        graders, grader = self.client.fine_tuning.alpha.graders, cast("Any", spec.grader)
        if grader is not None:
            with suppress(NotFoundError):  # other services with this API may not offer it
                graders.validate(grader=grader)

    def upload(self, path: Path) -> str:
        """Upload a file and return its id."""
        return str(self.client.files.create(file=path, purpose="fine-tune").id)

    def create(self, spec: JobSpec, files: dict[str, str]) -> str:
        """Create the job and return its id."""
        options = spec.hyperparameters()
        request: dict[str, Any] = {"seed": options.pop("seed")} if "seed" in options else {}
        method: dict[str, Any] = {"hyperparameters": options} if options else {}
        if spec.grader is not None:
            method["grader"] = spec.grader
        if "validation" in files:
            request["validation_file"] = files["validation"]
        if spec.suffix:
            request["suffix"] = spec.suffix
        kind = METHODS[spec.method]
        request |= {"model": spec.model, "training_file": files["train"], "method": {"type": kind, kind: method}}
        return str(self.client.with_options(max_retries=0).fine_tuning.jobs.create(**request).id)

    def status(self, job: str) -> JobStatus:
        """Get the state of a job with its latest 100 events, and its outcome once it has ended."""
        jobs = self.client.fine_tuning.jobs
        remote = jobs.retrieve(job)
        status = JobStatus(remote.status, [event.message for event in jobs.list_events(job, limit=100).data][::-1])
        if remote.status in ("failed", "cancelled"):
            status.failure = ": ".join(filter(None, [remote.status, remote.error.message if remote.error else None]))
        if remote.status != "succeeded":
            return status
        status.model = f"openai/{remote.fine_tuned_model}"
        for file in remote.result_files:
            status.curve += read_curve(self.client.files.content(file).text)
        method = getattr(remote.method, remote.method.type) if remote.method else None
        used = remote.hyperparameters.model_dump() | {"seed": remote.seed}
        if method is not None and method.hyperparameters:
            used |= method.hyperparameters.model_dump(exclude_none=True)
        status.notes.append("It used " + ", ".join(f"{name} {value}" for name, value in used.items() if value) + ".")
        if remote.trained_tokens:
            status.notes.append(f"OpenAI counted {remote.trained_tokens:,} trained tokens.")
        points = sorted(jobs.checkpoints.list(job), key=lambda point: point.step_number)
        if points:
            names = (f"`openai/{point.fine_tuned_model_checkpoint}` (step {point.step_number})" for point in points)
            status.notes.append(f"Checkpoints that can be evaluated as well: {', '.join(names)}.")
        return status


def read_curve(text: str) -> list[dict[str, float]]:
    """Read a result file: CSV with a row for each step, plain or in base64 (the API has returned both)."""
    if "step" not in text.partition("\n")[0]:
        try:
            text = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            return []
    names = {"step": "step", **CURVE}
    return [
        {names[name]: float(row[name]) for name in names if row.get(name)} for row in csv.DictReader(io.StringIO(text))
    ]
