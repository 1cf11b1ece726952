"""Fine-tuning at Together: the client reads TOGETHER_API_KEY and TOGETHER_BASE_URL."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.provider import JobSpec, JobStatus

if TYPE_CHECKING:
    from together import Together

NAMES = {"seed": "random_seed", "beta": "dpo_beta"}
"""Options that Together's client calls otherwise."""


class TogetherProvider:
    """Together, through its own client."""

    name = "Together"

    def __init__(self) -> None:
        try:
            from together import APIConnectionError, APIError, InternalServerError, RateLimitError
            from together.lib.types.error import FileTypeError
        except ImportError:
            raise bad_input('Together\'s client is not installed; run `pip install -e ".[together]"`') from None

        self.transient: tuple[type[Exception], ...] = (APIConnectionError, RateLimitError, InternalServerError)
        # The client itself checks files (FileTypeError) and some options (ValueError).
        self.errors: tuple[type[Exception], ...] = (APIError, FileTypeError, ValueError)

    @cached_property
    def client(self) -> "Together":
        """The client."""
        from together import Together, TogetherError

        try:
            return Together()
        except TogetherError as error:
            raise bad_input(f"Together's client cannot be used: {error}. Set TOGETHER_API_KEY to your key") from None

    def check(self, spec: JobSpec) -> None:
        """Check the key."""
        _ = self.client

    def upload(self, path: Path) -> str:
        """Upload a file and return its id. For bytes that Together has already, that is the id of the earlier file."""
        return str(self.client.files.upload(path, purpose="fine-tune", check=True).id)

    def create(self, spec: JobSpec, files: dict[str, str]) -> str:
        """Create the job and return its id."""
        options: dict[str, Any] = {NAMES.get(key, key): value for key, value in spec.hyperparameters().items()}
        if "validation" in files:
            options |= {"validation_file": files["validation"], "n_evals": options["n_epochs"]}
        if spec.method == "sft":
            options["train_on_inputs"] = "auto"
        if spec.suffix:
            options["suffix"] = spec.suffix
        jobs = self.client.with_options(max_retries=0).fine_tuning
        job = jobs.create(training_file=files["train"], model=spec.model, training_method=spec.method, **options)
        return str(job.id)

    def status(self, job: str) -> JobStatus:
        """Get the state of a job with its events, and its outcome once it has ended."""
        jobs = self.client.fine_tuning
        remote, events = jobs.retrieve(job), jobs.list_events(job).data
        status = JobStatus(remote.status, [event.message for event in events])
        if remote.status in ("error", "cancelled"):
            reasons = [event.message for event in events if event.type == "job_error" or event.level == "error"]
            status.failure = ": ".join([remote.status, *reasons[-1:]])
        if remote.status != "completed":
            return status
        status.model = f"together/{remote.x_model_output_name}"
        used = {name: getattr(remote, name) for name in ("n_epochs", "batch_size", "learning_rate")}
        status.notes = [
            "Together answers from it once it is deployed on an endpoint, which is billed by the minute.",
            "It used " + ", ".join(f"{name} {value}" for name, value in used.items() if value) + ".",
        ]
        if remote.token_count:
            status.notes.append(f"Together counted {remote.token_count:,} tokens.")
        curve: dict[float, dict[str, float]] = {}
        for row in jobs.list_metrics(job).metrics or []:  # training and validation losses are in separate rows
            point = {key.replace("train/", "").replace("eval/", "eval_"): value for key, value in row.items()}
            step = point.get("global_step", point.get("eval_global_step"))
            if step is not None:
                losses: dict[str, float] = {key: point[key] for key in ("epoch", "loss", "eval_loss") if key in point}
                curve.setdefault(step, {"step": step}).update(losses)
        status.curve = [curve[step] for step in sorted(curve)]
        return status
