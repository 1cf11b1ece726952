"""Fine-tuning jobs at OpenAI, and wherever its API is spoken: the client reads OPENAI_API_KEY and OPENAI_BASE_URL."""

import base64
import binascii
import csv
import io
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.pricing import Quote
from truthgym.training.providers.provider import EPOCHS, Look, Order

if TYPE_CHECKING:
    from openai import OpenAI
    from openai.types.fine_tuning import FineTuningJob

METHODS = {"sft": "supervised", "dpo": "dpo", "reinforcement": "reinforcement"}
"""The API's names of the methods."""
SUFFIX = 64
"""Characters that the name of a fine-tuned model may have of ours."""
MARK = "truthgym"
"""The key of a job's metadata under which its token stands."""
CURVE = {
    "loss": ("train_loss",),
    "eval_loss": ("full_valid_loss", "valid_loss"),
    "reward": ("train_mean_reward", "train_reward_mean"),
    "eval_reward": ("full_valid_mean_reward", "valid_mean_reward", "valid_reward_mean"),
}
"""Columns of our curves, with those of the vendor's result files, the best first."""


class OpenAIJobs:
    """The vendor, by its own client. 429, 5xx and lost connections are retried by that, but for the job's creation."""

    name = "OpenAI"
    quotes_files = False

    def __init__(self) -> None:
        from openai import APIConnectionError, APIError, InternalServerError, OpenAIError, RateLimitError

        self.passing: tuple[type[Exception], ...] = (APIConnectionError, RateLimitError, InternalServerError)
        self.refused: tuple[type[Exception], ...] = (APIError,)
        self._unset = OpenAIError
        self._seen: set[str] = set()

    @cached_property
    def client(self) -> "OpenAI":
        """The client.

        Raises:
            BadInput: It has no key.
        """
        from openai import OpenAI

        try:
            return OpenAI()
        except self._unset as error:
            raise bad_input(f"OpenAI's client cannot be used: {error} Set OPENAI_API_KEY to your key") from None

    def check(self, order: Order) -> None:
        """Have a grader checked by the vendor, where it can. Costs nothing."""
        from openai import NotFoundError

        client = self.client
        if order.grader is not None:
            grader: Any = order.grader
            try:
                client.fine_tuning.alpha.graders.validate(grader=grader)
            except NotFoundError:
                return  # others that speak this API need not have it

    def upload(self, path: Path) -> str:
        """Upload a file; its id."""
        return self.client.files.create(file=path, purpose="fine-tune").id

    def find_file(self, path: Path) -> str | None:
        """The id of a file that was uploaded under this name."""
        size = path.stat().st_size
        for file in self.client.files.list(purpose="fine-tune"):
            if file.filename == path.name and file.bytes == size and file.status != "error":
                return file.id
        return None

    def quote(self, order: Order, files: dict[str, str], poll: float) -> Quote | None:
        """None: OpenAI estimates nothing beforehand."""
        return None

    def create(self, order: Order, files: dict[str, str], token: str) -> str:
        """Create the job, marked by a token; its id."""
        # Retried by the client, a job that was taken and whose answer was lost would be made twice.
        client = self.client.with_options(max_retries=0)
        wanted = request(order, files, token)
        return client.fine_tuning.jobs.create(**wanted).id

    def find_job(self, token: str) -> str | None:
        """The id of the job that was created with this token."""
        for job in self.client.fine_tuning.jobs.list(metadata={MARK: token}):
            if (job.metadata or {}).get(MARK) == token:
                return job.id
        return None

    def look(self, job: str) -> Look:
        """How far a job is."""
        found = self.client.fine_tuning.jobs.retrieve(job)
        look = Look(found.status, model=found.fine_tuned_model if found.status == "succeeded" else None)
        if found.status in ("failed", "cancelled"):
            said = found.error.message if found.error and found.error.message else ""
            blamed = f" (parameter {found.error.param})" if found.error and found.error.param else ""
            look.failure = f"{found.status}{': ' * bool(said)}{said}{blamed}"
        new = []
        for event in self.client.fine_tuning.jobs.list_events(job, limit=100):  # the newest first
            if event.id in self._seen:
                break
            self._seen.add(event.id)
            new.append(event)
        for event in reversed(new):
            data = event.data if isinstance(event.data, dict) else {}
            if event.type == "metrics" and "step" in data:
                look.step, look.steps = int(data["step"]), data.get("total_steps")
                look.losses |= point(data)
            else:
                look.news.append(event.message)
        return look

    def result(self, job: str) -> tuple[str, list[dict[str, float]], list[str]]:
        """Of a job that has succeeded: its model for `inspect eval --model`, its curve, sentences for the card."""
        found = self.client.fine_tuning.jobs.retrieve(job)
        curve = []
        for file in found.result_files:
            curve += read_curve(self.client.files.content(file).text)
        notes = []
        if used := _used(found):
            notes.append(f"It used {used}.")
        if found.trained_tokens:
            notes.append(f"OpenAI counted {found.trained_tokens:,} trained tokens.")
        kept = sorted(self.client.fine_tuning.jobs.checkpoints.list(job), key=lambda point: point.step_number)
        if kept:
            named = ", ".join(f"`openai/{one.fine_tuned_model_checkpoint}` (step {one.step_number})" for one in kept)
            notes.append(f"Checkpoints that can be evaluated as well: {named}.")
        return f"openai/{found.fine_tuned_model}", curve, notes


def request(order: Order, files: dict[str, str], token: str) -> dict[str, Any]:
    """What the API is asked for.

    Args:
        order: What is to be trained.
        files: Ids of the files of `train`, and of `validation` where there is one.
        token: Marks the job.
    """
    options = {key: value for key, value in order.options.items() if key != "seed"}
    if order.method != "reinforcement":
        options.setdefault("n_epochs", EPOCHS)
    method: dict[str, Any] = {"hyperparameters": options} if options else {}
    if order.grader is not None:
        method["grader"] = order.grader
    kind = METHODS[order.method]
    wanted: dict[str, Any] = {
        "model": order.model,
        "training_file": files["train"],
        "method": {"type": kind, kind: method},
        "metadata": {MARK: token},
    }
    if "validation" in files:
        wanted["validation_file"] = files["validation"]
    if order.suffix:
        wanted["suffix"] = order.suffix
    if "seed" in order.options:
        wanted["seed"] = order.options["seed"]
    return wanted


def _used(job: "FineTuningJob") -> str:
    """The hyperparameters that a job had, with those that the vendor chose."""
    method = getattr(job.method, job.method.type) if job.method else None
    held = getattr(method, "hyperparameters", None) or job.hyperparameters
    said = {**job.hyperparameters.model_dump(), **held.model_dump(exclude_none=True), "seed": job.seed}
    return ", ".join(f"{name} {value}" for name, value in said.items() if value is not None)


def read_curve(text: str) -> list[dict[str, float]]:
    """Read a result file: CSV with a row for each step, as it is or in base64, as the API has returned it."""
    if "step" not in text.partition("\n")[0]:
        try:
            text = base64.b64decode(text, validate=True).decode()
        except (binascii.Error, ValueError):
            return []
    rows = []
    for row in csv.DictReader(io.StringIO(text)):
        numbers = dict(_numbers(row.items()))
        if "step" in numbers:
            rows.append({"step": numbers["step"], **point(numbers)})
    return rows


def point(data: dict[str, Any]) -> dict[str, float]:
    """The figures of one step under our names."""
    numbers = dict(_numbers(data.items()))
    found = {name: next((numbers[key] for key in keys if key in numbers), None) for name, keys in CURVE.items()}
    return {name: value for name, value in found.items() if value is not None}


def _numbers(cells: Iterable[tuple[str, Any]]) -> Iterable[tuple[str, float]]:
    for key, value in cells:
        try:
            yield key, float(value)
        except (TypeError, ValueError):
            continue
