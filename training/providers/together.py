"""Fine-tuning jobs at Together. The client reads TOGETHER_API_KEY and TOGETHER_BASE_URL."""

import time
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.pricing import Quote
from truthgym.training.providers.provider import EPOCHS, Look, Order

if TYPE_CHECKING:
    from together import Together
    from together.types.finetune_model_limits import FinetuneModelLimits

SUFFIX = 26
"""Characters of the user's in a name of 40, of which the job's token takes the rest."""
VALIDATED = 60
"""How often Together is asked whether it has read an uploaded file."""
NANODOLLARS = 1e9
"""To the dollar: what a finished job's price is counted in."""
QUIET = ("checkpoint_save", "epoch_complete")
"""Types of events that only say how far a job is."""


class TogetherJobs:
    """The vendor, by its own client. 429, 5xx and lost connections are retried by that, but for the job's creation."""

    name = "Together"
    quotes_files = True

    def __init__(self) -> None:
        try:
            from together import APIConnectionError, APIError, InternalServerError, RateLimitError, TogetherError
            from together.lib.types.error import FileTypeError
        except ImportError:
            raise bad_input(
                'Together\'s client is not installed; install it with `pip install "truthgym[together]"`'
            ) from None

        self.passing: tuple[type[Exception], ...] = (APIConnectionError, RateLimitError, InternalServerError)
        # ValueError: the client checks some options itself
        self.refused: tuple[type[Exception], ...] = (APIError, FileTypeError, ValueError)
        self._unset = TogetherError
        self._seen = 0

    @cached_property
    def client(self) -> "Together":
        """The client.

        Raises:
            BadInput: It has no key.
        """
        from together import Together

        try:
            return Together()
        except self._unset as error:
            raise bad_input(f"Together's client cannot be used: {error}. Set TOGETHER_API_KEY to your key") from None

    def check(self, order: Order) -> None:
        """Hold the options to the limits that Together states for the model.

        Raises:
            BadInput: One is outside of them.
        """
        limits = self._limits(order.model)
        rate = order.options.get("learning_rate")
        if rate is not None and not limits.min_learning_rate <= rate <= limits.max_learning_rate:
            reach = f"{limits.min_learning_rate:g} to {limits.max_learning_rate:g}"
            raise bad_input(f"--learning_rate {rate:g}: Together takes {reach} for {order.model}")
        if order.epochs > limits.max_num_epochs:
            raise bad_input(
                f"--n_epochs {order.epochs}: Together takes at most {limits.max_num_epochs} for {order.model}"
            )
        if order.options.get("lora") is False and not limits.supports_full_training:
            raise bad_input(f"--no-lora: Together trains {order.model} by LoRA only; leave it out")

    def upload(self, path: Path) -> str:
        """Upload a file; its id. Where Together has the same bytes already, it is the id of those."""
        return self.client.files.upload(path, purpose="fine-tune", check=True).id

    def find_file(self, path: Path) -> str | None:
        """The id of a file that was uploaded under this name."""
        size = path.stat().st_size
        for file in self.client.files.list().data:
            if file.filename == path.name and file.bytes == size:
                return file.id
        return None

    def quote(self, order: Order, files: dict[str, str], poll: float) -> Quote | None:
        """Together's own estimate of uploaded files, once it has read them.

        Raises:
            BadInput: It cannot read them. Or it gives no estimate, and no --price is said.
        """
        wanted: dict[str, Any] = {
            "training_file": files["train"],
            "model": order.model,
            "n_epochs": order.epochs,
            "training_method": self._method(order),
        }
        if "validation" in files:
            wanted |= {"validation_file": files["validation"], "n_evals": order.epochs}
        if "lora" in order.options:
            wanted["training_type"] = self._training_type(order)
        reason = ""
        for _ in range(VALIDATED):
            found = self.client.fine_tuning.estimate_price(**wanted)
            if found.estimation_available is not False:
                if found.estimated_total_price is None:
                    break
                tokens = round((found.estimated_train_token_count or 0) + (found.estimated_eval_token_count or 0))
                text = f"Together estimates {tokens:,} tokens and ${found.estimated_total_price:,.2f}."
                if found.allowed_to_proceed is False:
                    text += " It says that your credit does not reach."
                return Quote(text, tokens, found.estimated_total_price)
            reason = found.unavailable_reason
            if reason.endswith("_invalid"):
                split = "train" if reason.startswith("train") else "validation"
                report = self.client.files.retrieve(files[split]).validation_report
                why = report.error if report and report.error else reason
                raise bad_input(f"Together cannot use the {split} file: {why}")
            if not reason.endswith("_not_validated"):
                break
            time.sleep(poll)
        raise bad_input(
            f"Together gives no estimate of the price ({reason or 'it names none'}); say what it charges in dollars "
            "for a million trained tokens: --price 0.5"
        )

    def create(self, order: Order, files: dict[str, str], token: str) -> str:
        """Create the job, marked by a token in the model's name; its id."""
        # Retried by the client, a job that was taken and whose answer was lost would be made twice.
        client = self.client.with_options(max_retries=0)
        options = {key: value for key, value in order.options.items() if key not in ("seed", "beta")}
        options.setdefault("n_epochs", EPOCHS)
        if "beta" in order.options:
            options["dpo_beta"] = order.options["beta"]
        if "seed" in order.options:
            options["random_seed"] = order.options["seed"]
        if "validation" in files:
            options |= {"validation_file": files["validation"], "n_evals": order.epochs}
        if order.method == "sft":
            options["train_on_inputs"] = "auto"
        return client.fine_tuning.create(
            training_file=files["train"],
            model=order.model,
            training_method=order.method,
            suffix=marked(order.suffix, token),
            model_limits=self._limits(order.model),
            **options,
        ).id

    def find_job(self, token: str) -> str | None:
        """The id of the job that was created with this token."""
        for job in self.client.fine_tuning.list().data:
            if token in f"{job.suffix} {job.x_model_output_name}":
                return job.id
        return None

    def look(self, job: str) -> Look:
        """How far a job is."""
        found = self.client.fine_tuning.retrieve(job)
        look = Look(found.status, model=found.x_model_output_name if found.status == "completed" else None)
        events = self.client.fine_tuning.list_events(job).data
        for event in events[self._seen :]:
            if event.type not in QUIET:
                look.news.append(event.message)
            if event.step and event.total_steps:
                look.step, look.steps = event.step, event.total_steps
        self._seen = len(events)
        if found.status in ("error", "cancelled"):
            wrong = [event.message for event in events if event.type == "job_error" or event.level == "error"]
            look.failure = f"{found.status}{': ' + wrong[-1] if wrong else ''}"
        for row in self._curve(job)[-20:]:
            look.step = int(row["step"])
            look.losses |= {key: value for key, value in row.items() if key in ("loss", "eval_loss")}
        return look

    def result(self, job: str) -> tuple[str, list[dict[str, float]], list[str]]:
        """Of a job that has succeeded: its model for `inspect eval --model`, its curve, sentences for the card."""
        found = self.client.fine_tuning.retrieve(job)
        notes = ["Together answers from it once it is deployed on an endpoint, which is billed by the minute."]
        used = {name: getattr(found, name) for name in ("n_epochs", "batch_size", "learning_rate")}
        notes.append(f"It used {', '.join(f'{name} {value}' for name, value in used.items() if value is not None)}.")
        if found.token_count:
            price = f" for ${found.total_price / NANODOLLARS:,.2f}" if found.total_price else ""
            notes.append(f"Together counted {found.token_count:,} tokens{price}.")
        return f"together/{found.x_model_output_name}", self._curve(job), notes

    def _limits(self, model: str) -> "FinetuneModelLimits":
        return self.client.fine_tuning.model_limits(model_name=model)

    def _method(self, order: Order) -> dict[str, Any]:
        if order.method == "sft":
            return {"method": "sft", "train_on_inputs": "auto"}
        beta = order.options.get("beta")
        return {"method": "dpo"} | ({} if beta is None else {"dpo_beta": beta})

    def _training_type(self, order: Order) -> dict[str, Any]:
        if not order.options["lora"]:
            return {"type": "Full"}
        rank = self._limits(order.model).lora_training.default_rank
        return {"type": "Lora", "lora_r": rank, "lora_alpha": 2 * rank}

    def _curve(self, job: str) -> list[dict[str, float]]:
        """The losses step by step. Training and validation come as rows of their own."""
        points: dict[float, dict[str, float]] = {}
        for row in self.client.fine_tuning.list_metrics(job).metrics or []:
            named = {key.replace("train/", "").replace("eval/", "eval_"): value for key, value in row.items()}
            step = named.get("global_step", named.get("eval_global_step"))
            if step is not None:
                kept = {key: value for key, value in named.items() if key in ("epoch", "loss", "eval_loss")}
                points.setdefault(step, {"step": step}).update(kept)
        return [points[step] for step in sorted(points)]


def marked(suffix: str | None, token: str) -> str:
    """The suffix of the model's name with the job's token. Together keeps no metadata by which to find a job."""
    return f"{suffix or 'truthgym'}-{token}"
