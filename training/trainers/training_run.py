"""One training run: options, then the model, then the data, then the trainer, and what it leaves on disk.

`truthgym.training.train` has the few lines that each method adds.
"""

import json
import math
import os
import shutil
import sys
import warnings
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from truthgym.evallog.errors import bad_input
from truthgym.models.reward_models.encoding import NOTE
from truthgym.training.drift_monitor import monitor_chart
from truthgym.training.files import RESULTS_FILE, STATE_FILE, folder_lock, hash_model, write_atomically
from truthgym.training.lineage import record_failure, store_of
from truthgym.training.trainers import memory
from truthgym.training.trainers.accelerate_launch import launched_configuration
from truthgym.training.trainers.base_model import base_config, base_tokenizer
from truthgym.training.trainers.dataset import (
    TrainingData,
    check_template,
    converted_logs,
    fit_template,
    load_data,
    longest_row,
    template_errors,
)
from truthgym.training.trainers.model_card import ModelCard, is_finished, model_name, origins, write_card
from truthgym.training.trainers.options import (
    BY_ROLLOUTS,
    CARD_OPTIONS,
    Arguments,
    RawOptions,
    build_options,
    lora_config,
    parse_options,
)

if TYPE_CHECKING:
    import altair as alt
    from peft import PeftConfig
    from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback

    from truthgym.training.trainers.step_lines import StepLines

HEADS: dict[str, memory.Head] = {"reward": "reward", "process_reward": "steps", "rubric_reward": "reward"}
"""The output of a model that writes no text, by method of its card."""
CURVE_METRICS = (
    *("step", "epoch", "loss", "eval_loss"),
    *("reward", "frac_reward_zero_std", "completions/mean_length", "entropy", "kl", "share_read", "failed_rollouts"),
    *("sampling/sampling_logp_difference/mean", "sampling/importance_sampling_ratio/min"),
    *("sampling/importance_sampling_ratio/max", "eval_share_read"),
)
REWARD_PREFIXES = ("rewards/", "eval_rewards/")
"""What the card keeps of a Trainer's log: these metrics, each reward's mean and standard deviation, and accuracies."""
CURVE_ROWS = 40
"""Most rows of a card's curve without those of validations; `trainer_state.json` has all."""
CURVE_PLOT = "loss.html"
MONITOR = "drift_monitor"
"""Of the callbacks' states in `trainer_state.json`, that which `monitor_chart` draws."""
BEGINS_ANEW = "begins anew, since no checkpoint was saved yet (--save_steps)"


@dataclass
class Run:
    """A run that is ready to start, or finished."""

    method: str
    """As in the card: `process_reward` if `reward` trains on reasoning steps."""
    arguments: Arguments
    data: TrainingData
    tokenizer: "PreTrainedTokenizerBase"
    base: str
    base_hash: str
    dataset: str
    folder: Path
    settings: dict[str, Any]
    rewards: dict[str, str] = field(default_factory=dict)
    """What gives the rewards of rollouts, by name with its digest."""
    finished: bool = False
    """Whether the folder contains the finished model already."""
    lock: ExitStack = field(default_factory=ExitStack)
    """The folder's lock, until the run ends."""

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.lock.close()

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def resume_from(self) -> Path | None:
        """The checkpoint to resume from: `--resume_from_checkpoint`, or the run's last complete one."""
        name = self.arguments.training.resume_from_checkpoint
        return Path(name) if name else last_checkpoint(self.checkpoints)

    @property
    def lora(self) -> "PeftConfig | None":
        return lora_config(self.arguments.model)

    @property
    def quantization(self) -> Any:  # noqa: ANN401
        from trl import get_quantization_config

        return get_quantization_config(self.arguments.model)

    @property
    def callbacks(self) -> "list[TrainerCallback]":
        """Early stopping, if there is a validation loss."""
        from transformers import EarlyStoppingCallback

        patience = self.arguments.options.early_stopping_patience
        if not self.arguments.training.load_best_model_at_end or not patience:
            return []
        return [EarlyStoppingCallback(early_stopping_patience=patience)]

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """Arguments of `from_pretrained` for the base model, as in TRL's own scripts."""
        from transformers.utils import logging

        logging.disable_progress_bar()
        model, training = self.arguments.model, self.arguments.training
        kwargs = {
            "revision": model.model_revision,
            "attn_implementation": model.attn_implementation,
            "dtype": model.dtype,
        }
        return kwargs | dict(getattr(training, "model_init_kwargs", None) or {})

    def trainer(self, kind: Callable[..., "Trainer"]) -> "Trainer":
        """Build one of TRL's trainers."""
        self.arguments.training.model_init_kwargs = self.model_kwargs
        with self.translate_errors():
            return kind(
                **self._reference(),
                model=self.base,
                args=self.arguments.training,
                train_dataset=self.data.train,
                eval_dataset=self.data.validation,
                processing_class=self.tokenizer,
                peft_config=self.lora,
                quantization_config=self.quantization,
                callbacks=self.callbacks,
            )

    def _reference(self) -> dict[str, Any]:
        """The argument `ref_model` of TRL's trainers, if another model than the base is the reference."""
        name = self.arguments.options.reference_model
        if not name:
            return {}
        from transformers import AutoModelForCausalLM

        return {"ref_model": AutoModelForCausalLM.from_pretrained(name, dtype=self.arguments.model.dtype)}

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        """Turn the errors of building a model or trainer into one BadInput."""
        try:
            with template_errors(self.data, self.tokenizer):
                yield
        except (ValueError, ImportError, OSError, RuntimeError) as error:
            raise bad_input(f"truthgym train: the trainer cannot be built: {error}") from error

    def train(
        self, trainer: "Trainer", notes: Callable[[], list[str]] = list, lines: "StepLines | None" = None
    ) -> Path:
        """Train from the last complete checkpoint, save the model, and write its card."""
        from transformers.trainer_callback import PrinterCallback, ProgressCallback

        from truthgym.training.trainers.step_lines import StepLines

        checkpoint = self.resume_from
        if checkpoint:
            log_main(f"Resuming from {checkpoint}")
        for kind in (PrinterCallback, ProgressCallback):
            trainer.remove_callback(kind)
        trainer.add_callback(lines or StepLines())
        trainer.add_callback(_stops_at_nan(self.checkpoints))
        with self.recorded():
            metrics = trainer.train(resume_from_checkpoint=str(checkpoint) if checkpoint else None).metrics
        sentences = notes()
        if checkpoint and checkpoint.resolve().parent != self.checkpoints.resolve():
            sentences = [f"Training resumed from `{checkpoint}`, a checkpoint of another run.", *sentences]
        if self.arguments.model.use_peft:
            trainer.save_model(str(self.folder / "adapter"))
            if trainer.is_world_process_zero():
                self._merge_adapter(trainer.accelerator.unwrap_model(trainer.model))
        else:
            trainer.save_model(str(self.folder))
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            curve = loss_curve(trainer.state.log_history)
            write_history(trainer, self.folder, metrics, curve)
            write_card(self.folder, self.card(curve, sentences))
            if not self.arguments.options.keep_checkpoints:
                shutil.rmtree(self.checkpoints, ignore_errors=True)
            print(f"Trained: {self.folder}\n{self.next_steps()}", flush=True)
        trainer.end()
        return self.folder

    def next_steps(self) -> str:
        """What to do with the trained model, as commands."""
        if self.method in HEADS:
            return f"Use it: inspect score LOG --scorer truthgym/reward_model -S folder={self.folder}"
        from truthgym.datasets.loading.inspect_tasks import task_parameters

        task = self.dataset.split(", ")[0] if self.method in BY_ROLLOUTS else "truthgym/urns"
        logs, split = f"logs/{self.folder.name}", " -T split=test" * ("split" in task_parameters(task))
        return (
            f"Evaluate it beside its base: inspect eval {task}{split} --model hf/{self.folder},hf/{self.base} "
            f"--log-dir {logs}\nCompare: truthgym compare {logs}\nAdd both to its card: truthgym card {self.folder} "
            f"--log {logs}\nTrain it further: the same command with --model_name_or_path {self.folder}"
        )

    def _merge_adapter(self, trained: Any) -> None:  # noqa: ANN401
        """Merge the adapter in `adapter/` into its base and save the full model.

        The end tokens are those of the `trained` model: with the base's own, the merged model might never stop.
        """
        from peft import PeftModel
        from transformers.integrations.deepspeed import unset_hf_deepspeed_config

        unset_hf_deepspeed_config()  # this process loads the base unsharded
        labels = {"num_labels": trained.config.num_labels} if self.method in HEADS else {}
        kind = memory.model_class(HEADS.get(self.method, "words"))
        model = kind.from_pretrained(self.base, **self.model_kwargs, **labels)
        if len(self.tokenizer) > model.get_input_embeddings().num_embeddings:
            model.resize_token_embeddings(len(self.tokenizer))
        for name in ("bos_token_id", "eos_token_id", "pad_token_id", NOTE):
            if (value := getattr(trained.config, name, None)) is not None or name != NOTE:
                setattr(model.config, name, value)
        if model.can_generate():
            model.generation_config = trained.generation_config
        merged = PeftModel.from_pretrained(model, str(self.folder / "adapter")).merge_and_unload()
        merged.save_pretrained(str(self.folder))
        self.tokenizer.save_pretrained(str(self.folder))

    @contextmanager
    def recorded(self) -> Iterator[None]:
        """Write a statement if training fails or is cancelled. `write_card` writes that of a model that is finished."""
        try:
            yield
        except BaseException as error:
            if is_main_process():
                if isinstance(error, KeyboardInterrupt):
                    last = last_checkpoint(self.checkpoints)
                    print(f"\nStopped. The same command {f'goes on from {last}' if last else BEGINS_ANEW}", flush=True)
                parents = origins(self.base, self.base_hash, self.dataset) | self.rewards
                settings = {"method": self.method, "base": self.base, "settings": self.settings}
                record_failure("train", self.folder.name, error, parents, store_of(self.folder), settings)
            raise

    def card(self, curve: list[dict[str, float]], notes: list[str]) -> ModelCard:
        """The model card."""
        import trl

        classes = type(self.arguments.training), type(self.arguments.model)
        defaults = {name: entry.default for kind in classes for name, entry in kind.__dataclass_fields__.items()}
        config = {
            key: value
            for key, value in self.settings.items()
            if value is not None and (key in CARD_OPTIONS or value != defaults.get(key))
        }
        return ModelCard(
            method=self.method,
            base=self.base,
            base_hash=self.base_hash,
            model="" if self.method in HEADS else f"hf/{self.folder}",
            dataset=self.dataset,
            data=self.data.hashes,
            config=config,
            dataset_facts=self.data.metadata,
            curve=curve,
            rewards=self.rewards,
            notes=[*notes, f"Trained with TRL {trl.__version__}."],
        )


def _stops_at_nan(checkpoints: Path) -> "TrainerCallback":
    """A callback that ends a run before a loss or gradient that is no finite number reaches the weights."""
    import torch
    from transformers import TrainerCallback

    def refuse(step: int, what: str, harm: str) -> None:
        last = last_checkpoint(checkpoints)
        go_on = f"The same command {f'goes on from {last}' if last else BEGINS_ANEW}"
        raise bad_input(
            f"truthgym train: the {what} of step {step} is NaN or infinite, so training stopped, {harm}. {go_on}; "
            "first change what caused it: --attn_implementation eager, --dtype float32, a lower --learning_rate, or a "
            "row of the data that is empty or cut off"
        )

    class StopsAtNan(TrainerCallback):  # type: ignore[misc]
        def on_pre_optimizer_step(self, args: Any, state: Any, control: object, **fields: Any) -> None:  # noqa: ANN401
            gradients = [weight.grad for weight in fields["model"].parameters() if weight.grad is not None]
            if args.fp16 or not gradients:  # fp16 skips such steps itself, ZeRO keeps gradients elsewhere
                return
            if not torch.stack([gradient.float().sum().cpu() for gradient in gradients]).isfinite().all():
                refuse(state.global_step + 1, "gradient", "before it reached the weights")

        def on_log(self, args: Any, state: Any, control: object, logs: Any = None, **_: object) -> None:  # noqa: ANN401
            for name in ("loss",) if args.fp16 else ("loss", "grad_norm"):
                if not math.isfinite((logs or {}).get(name) or 0):
                    refuse(state.global_step, name, "and weights since the last finite one may be damaged")

    return StopsAtNan()


def prepare(method: str, raw: RawOptions) -> Run:
    """Name the model, and check everything that can be checked before it is loaded."""
    parsed, config = options_and_model(method, raw)
    base = parsed.model_name_or_path
    if parsed.reference_model:
        reference = base_config(parsed.reference_model)
        words, other = (model.get_text_config().vocab_size for model in (config, reference))
        if words != other:
            raise bad_input(
                f"--reference_model {parsed.reference_model} has {other} tokens and {base} has {words}; give a "
                "reference with the same tokenizer"
            )
    with ExitStack() as lock, converted_logs(method, parsed) as converted:
        dataset = str(converted or parsed.dataset_name)
        splits = (parsed.dataset_config, parsed.dataset_train_split, parsed.dataset_validation_split)
        data = load_data(method, dataset, *splits, parsed.seed if parsed.bootstrap else None, parsed.criteria)
        templated = data.conversational and not getattr(parsed, "chat_template_path", None)
        tokenizer = base_tokenizer(base, parsed.model_revision, parsed.trust_remote_code, templated)
        if templated:
            if joined := fit_template(data, tokenizer, getattr(parsed, "assistant_only_loss", False)):
                log_main(joined)
            check_template(data, tokenizer)
        kind = "process_reward" if data.steps else "rubric_reward" if data.criteria else method
        # Before TRL's options are built: from then on, ZeRO-3 shards every model that is created.
        shape = memory.shape_of(config, HEADS.get(kind, "words"), lora_config(parsed))
        arguments = build_options(method, parsed, data.validation is not None)
        run = name_run(kind, arguments, parsed, data, tokenizer, dataset)
        if not acquire_folder(run, lock):
            return run
        make_ready(run, parsed, shape, _check_length(run))
        if converted:
            run.dataset = str(run.folder / "data")
            if is_main_process():  # in place of what an interrupted run left there, which is the same by its hash
                shutil.rmtree(run.dataset, ignore_errors=True)
                run.folder.mkdir(parents=True, exist_ok=True)
                converted.replace(run.dataset)
        run.lock = lock.pop_all()
    validation = f"validated on {len(data.validation)}" if data.validation is not None else "without validation"
    log_main(f"Training {run.folder} on {len(data.train)} rows, {validation}")
    return run


def options_and_model(method: str, raw: RawOptions) -> tuple[Namespace, Any]:
    """The options, and the configuration of the model that they name."""
    import torch
    from datasets import disable_progress_bars

    # cuDNN's attention, which torch prefers on Hopper, has gradients that are no numbers for some padded batches (torch
    # 2.11, cuDNN 9.19), and plans anew for each shape, which halves the speed of sampling.
    torch.backends.cuda.enable_cudnn_sdp(False)
    warnings.filterwarnings("ignore", "^.*gradient_checkpointing", FutureWarning)  # of TRL's own calls, twice a step
    if not sys.stderr.isatty():
        disable_progress_bars()
    parsed = parse_options(method, raw)
    checkpoint = parsed.resume_from_checkpoint
    if checkpoint and not (Path(checkpoint) / STATE_FILE).is_file():
        problem = f"no {STATE_FILE} in this folder" if Path(checkpoint).is_dir() else "no such folder"
        raise bad_input(
            f"--resume_from_checkpoint {checkpoint}: {problem}; without the option, a run resumes by itself."
        )
    return parsed, base_config(parsed.model_name_or_path, parsed.model_revision, parsed.trust_remote_code)


def name_run(
    method: str,
    arguments: Arguments,
    parsed: Namespace,
    data: TrainingData,
    tokenizer: "PreTrainedTokenizerBase",
    dataset: str,
) -> Run:
    """A run whose folder is named by everything that decides the result."""
    base, settings = parsed.model_name_or_path, arguments.settings(arguments.training.world_size)
    base_hash = hash_model(base, parsed.model_revision)
    folder = Path(parsed.output_dir) / model_name(method, base, base_hash, data.hashes, settings)
    run = Run(method, arguments, data, tokenizer, base, base_hash, dataset, folder, settings)
    arguments.training.output_dir = str(run.checkpoints)
    return run


def acquire_folder(run: Run, lock: ExitStack) -> bool:
    """Lock the run's folder for this command."""
    if is_main_process():
        lock.enter_context(folder_lock(run.folder))
    run.finished = is_finished(run.folder) and not run.arguments.options.overwrite
    if run.finished:
        log_main(f"{run.folder} is trained already; --overwrite trains it again")
    return not run.finished


def make_ready(run: Run, parsed: Namespace, shape: memory.Shape, longest: int, rollouts: int = 0) -> None:
    """Print the predicted memory for rows of at most `longest` tokens, and delete a model that is to be replaced."""
    training = run.arguments.training
    mixed = bool(training.bf16 or training.fp16)
    load = memory.workload(run.method, parsed, longest, bool(training.gradient_checkpointing), mixed, rollouts)
    configuration = launched_configuration(training.world_size)
    need = memory.predict(shape, load, configuration, training.world_size)
    log_main(
        memory.memory_report(need, memory.device_memory(), configuration, training.world_size, memory.process_memory())
    )
    if parsed.overwrite and run.folder.exists() and is_main_process():
        for path in run.folder.iterdir():
            if path.is_dir() and path.name != "data":  # the run that replaces it may read them
                shutil.rmtree(path)
            elif path.is_file():
                path.unlink()


def is_main_process() -> bool:
    """Whether this is the first training process, before accelerate's `PartialState` may initialise the devices."""
    return os.environ.get("RANK", "0") == "0"


def log_main(message: str) -> None:
    """Print a message on the main process only."""
    if is_main_process():
        print(message, flush=True)


def _check_length(run: Run) -> int:
    """Report rows longer than `--max_length`."""
    limit = getattr(run.arguments.training, "max_length", None)
    rows = len(run.data.train)
    longest, too_long = longest_row(run.data.train, run.tokenizer, limit)
    if too_long == rows:
        raise bad_input(
            f"Every row of {run.dataset} has more tokens than --max_length {limit}, which would cut off its answer; "
            "raise the limit."
        )
    if too_long:
        log_main(f"{too_long} of {rows} rows have more tokens than --max_length {limit}: they are cut or left out")
    return longest


def steps_done(checkpoint: Path) -> int:
    """The number of training steps before a checkpoint was written."""
    return int(json.loads((checkpoint / STATE_FILE).read_text(encoding="utf-8"))["global_step"])


def last_checkpoint(checkpoints: Path) -> Path | None:
    """The last complete checkpoint, or None. Incomplete ones, left by a killed process, are deleted."""
    folders = sorted(checkpoints.glob("checkpoint-*"), key=lambda path: int(path.name.rpartition("-")[2]))
    while folders:
        state = folders[-1] / STATE_FILE
        if state.is_file() and state.read_text(encoding="utf-8").endswith("}\n"):
            return folders[-1]
        shutil.rmtree(folders.pop(), ignore_errors=True)  # other processes may delete it too
    return None


def loss_curve(history: list[dict[str, Any]]) -> list[dict[str, float]]:
    """Losses, validation accuracies and rewards from a Trainer's log history: of a long run not of every step."""
    rows: dict[float, dict[str, float]] = {}
    for entry in history:
        metrics = {
            key: float(value)
            for key, value in entry.items()
            if value is not None  # a reward that no answer of this step received
            and (
                key in CURVE_METRICS
                or key.startswith(REWARD_PREFIXES)
                or (key.startswith("eval_") and "accurac" in key)
            )
        }
        if len(metrics.keys() - {"step", "epoch"}):
            rows.setdefault(entry["step"], {}).update(metrics)
    every = max(1, -(-len(rows) // CURVE_ROWS))
    return [
        row for place, (_, row) in enumerate(sorted(rows.items()), 1)
        if place == 1 or place % every == 0 or place == len(rows) or any(key.startswith("eval_") for key in row)
    ]  # fmt: skip


def write_history(
    trainer: "Trainer", folder: Path, metrics: Mapping[str, float], curve: list[dict[str, float]]
) -> None:
    """Write what transformers' own scripts leave beside a model, and a plot of the curve and of the monitor."""
    trainer.state.save_to_json(str(folder / STATE_FILE))
    last = {key: value for row in curve for key, value in row.items() if key.startswith("eval_")}
    write_atomically(folder / RESULTS_FILE, json.dumps(last | dict(metrics), indent=4, sort_keys=True) + "\n")
    if curve:  # opens offline if vl-convert is there
        chart = curve_chart(curve, trainer.state.stateful_callbacks.get(MONITOR))
        chart.save(str(folder / CURVE_PLOT), inline=find_spec("vl_convert") is not None)


def curve_chart(
    curve: list[dict[str, float]], monitor: Mapping[str, Any] | None = None
) -> "alt.Chart | alt.VConcatChart":
    """The losses by step, or after training on rollouts the rewards; below it what a monitor saw."""
    import altair as alt
    import pandas as pd

    by_rollouts = any("reward" in row for row in curve)
    plotted = r"step|reward|eval_rewards/.*" if by_rollouts else r"step|loss|eval_loss"
    points = pd.DataFrame(curve).filter(regex=f"^({plotted})$").melt("step", var_name="metric").dropna()
    title = "reward (higher is better)" if by_rollouts else "loss (lower is better)"
    chart: alt.Chart = (
        alt.Chart(points)
        .mark_line(point=True)
        .encode(alt.X("step:Q"), alt.Y("value:Q", title=title, scale=alt.Scale(zero=False)), alt.Color("metric:N"))
    )
    if not monitor:
        return chart
    first: alt.Chart = chart.properties(width=480, height=200)
    panels: alt.VConcatChart = alt.vconcat(first, monitor_chart(monitor)).resolve_scale(color="independent")
    return panels
