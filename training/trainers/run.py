"""One run of training: what every trainer does before and after TRL's, so that each is a few lines."""

import os
import shutil
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from truthgym.evallog.errors import bad_input
from truthgym.training.artifacts import folder_lock, hash_model
from truthgym.training.trainers.base_model import base_config, base_tokenizer
from truthgym.training.trainers.checkpoints import check_checkpoint, clear, curve, last_checkpoint, merge
from truthgym.training.trainers.data import TrainingData, converted, load_data, longest_row, put
from truthgym.training.trainers.defaults import MAIN
from truthgym.training.trainers.launch import launched_configuration
from truthgym.training.trainers.memory import Head, Shape, check_memory, device_memory, predict, shape_of
from truthgym.training.trainers.model_card import Facts, is_finished, name_of, write_card
from truthgym.training.trainers.options import Arguments, Given, build, parse_options
from truthgym.training.trainers.planned import load_of, lora_of

if TYPE_CHECKING:
    from peft import PeftConfig
    from transformers import PreTrainedTokenizerBase, Trainer, TrainerCallback

HEADS: dict[str, Head] = {"reward": "reward", "process_reward": "steps"}


@dataclass
class Run:
    """A run that is ready to start, or finished."""

    method: str
    """As the card names it: `process_reward` for rewards of steps."""
    arguments: Arguments
    data: TrainingData
    tokenizer: "PreTrainedTokenizerBase"
    base: str
    base_hash: str
    dataset: str
    folder: Path
    settings: dict[str, Any]
    finished: bool = False
    held: ExitStack = field(default_factory=ExitStack)
    """The folder's lock, until the run ends."""

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, *_: object) -> None:
        self.held.close()

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    @property
    def begun(self) -> Path | None:
        """The checkpoint to go on from: the one that was named, or the last whole one."""
        named = self.arguments.training.resume_from_checkpoint
        return Path(named) if named else last_checkpoint(self.checkpoints)

    @property
    def lora(self) -> "PeftConfig | None":
        from trl import get_peft_config

        return cast("PeftConfig | None", get_peft_config(self.arguments.model))

    @property
    def quantization(self) -> Any:  # noqa: ANN401
        from trl import get_quantization_config

        return get_quantization_config(self.arguments.model)

    @property
    def callbacks(self) -> "list[TrainerCallback]":
        """Early stopping, where there is a validation loss to judge by."""
        from transformers import EarlyStoppingCallback

        patience = self.arguments.options.early_stopping_patience
        if not self.arguments.training.load_best_model_at_end or not patience:
            return []
        return [EarlyStoppingCallback(early_stopping_patience=patience)]

    @property
    def model_kwargs(self) -> dict[str, Any]:
        """How `from_pretrained` loads the base, as TRL's own scripts set it."""
        from transformers.utils import logging

        logging.disable_progress_bar()
        model, training = self.arguments.model, self.arguments.training
        told = {
            "revision": model.model_revision,
            "attn_implementation": model.attn_implementation,
            "dtype": model.dtype,
        }
        return told | dict(getattr(training, "model_init_kwargs", None) or {})

    def trainer(self, kind: Callable[..., "Trainer"]) -> "Trainer":
        """One of TRL's trainers, ready to train.

        Raises:
            BadInput: It refuses the options, or a library that they need is not there.
        """
        self.arguments.training.model_init_kwargs = self.model_kwargs
        with self.refusing():
            return kind(
                model=self.base,
                args=self.arguments.training,
                train_dataset=self.data.train,
                eval_dataset=self.data.validation,
                processing_class=self.tokenizer,
                peft_config=self.lora,
                quantization_config=self.quantization,
                callbacks=self.callbacks,
            )

    @contextmanager
    def refusing(self) -> Iterator[None]:
        """Say in one sentence what is refused while models and trainers are made."""
        try:
            yield
        except (ValueError, ImportError, OSError, RuntimeError) as error:
            raise bad_input(f"truthgym train: this cannot be trained: {error}") from error

    def train(self, trainer: "Trainer", notes: Callable[[], list[str]] = list) -> Path:
        """Train from the last whole checkpoint, save, and write the card.

        Args:
            trainer: Ready to train.
            notes: Makes sentences for the card, once it is trained.

        Returns:
            The model's folder.
        """
        begun = self.begun
        if begun:
            say(f"Going on from {begun}")
        trainer.train(resume_from_checkpoint=str(begun) if begun else None)
        told = notes()
        if begun and begun.resolve().parent != self.checkpoints.resolve():
            told = [f"Training went on from `{begun}`, which is of another run.", *told]
        if self.arguments.model.use_peft:
            trainer.save_model(str(self.folder / "adapter"))
            if trainer.is_world_process_zero():
                trained = trainer.accelerator.unwrap_model(trainer.model)
                merge(self.folder, self.method, self.base, self.model_kwargs, self.tokenizer, trained)
        else:
            trainer.save_model(str(self.folder))
        trainer.accelerator.wait_for_everyone()
        if trainer.is_world_process_zero():
            write_card(self.folder, self.facts(curve(trainer.state.log_history), told))
            if not self.arguments.options.keep_checkpoints:
                shutil.rmtree(self.checkpoints, ignore_errors=True)
            print(f"Trained: {self.folder}", flush=True)
        trainer.end()
        return self.folder

    def facts(self, losses: list[dict[str, float]], notes: list[str]) -> Facts:
        """What the card says."""
        import trl

        plain = {name: entry.default for name, entry in type(self.arguments.training).__dataclass_fields__.items()}
        plain |= {name: entry.default for name, entry in type(self.arguments.model).__dataclass_fields__.items()}
        told = {key: value for key, value in self.settings.items() if key in MAIN or value != plain.get(key)}
        writes = self.method not in HEADS
        return Facts(
            method=self.method,
            base=self.base,
            base_hash=self.base_hash,
            model=f"hf/{self.folder}" if writes else "",
            dataset=self.dataset,
            data=self.data.hashes,
            config={key: value for key, value in told.items() if value is not None},
            dataset_facts=self.data.facts,
            curve=losses,
            notes=[*notes, f"Trained with TRL {trl.__version__}."],
        )


def prepare(method: str, given: Given) -> Run:
    """Check everything that can be checked before training costs anything, and name the model.

    Args:
        method: `sft`, `dpo`, `kto` or `reward`.
        given: Options.

    Raises:
        BadInput: Options, a model or data that cannot be used, or too little memory.
    """
    parsed = parse_options(method, given)
    check_checkpoint(parsed.resume_from_checkpoint)
    base, revision, trusted = parsed.model_name_or_path, parsed.model_revision, parsed.trust_remote_code
    config = base_config(base, revision, trusted)
    with ExitStack() as held, ExitStack() as begun:
        logged = converted(method, parsed, begun) if parsed.log else None
        dataset = str(logged or parsed.dataset_name)
        splits = (parsed.dataset_config, parsed.dataset_train_split, parsed.dataset_validation_split)
        data = load_data(method, dataset, *splits)
        templated = data.conversational and not getattr(parsed, "chat_template_path", None)
        tokenizer = base_tokenizer(base, revision, trusted, templated)
        kind = "process_reward" if data.steps else method
        # Before TRL's options are built: from then on ZeRO-3 shards whatever model is made.
        shape = shape_of(config, HEADS.get(kind, "words"), lora_of(parsed))
        arguments = build(method, parsed, data.validation is not None)
        base_hash = hash_model(base, revision)
        settings = arguments.settings(arguments.training.world_size)
        folder = Path(parsed.output_dir) / name_of(kind, base, base_hash, data.hashes, settings)
        run = Run(kind, arguments, data, tokenizer, base, base_hash, dataset, folder, settings)
        if not claim(run, held):
            return run
        _check_size(run, parsed, shape)
        if parsed.overwrite and folder.exists() and first():
            clear(folder)
        if logged:
            run.dataset = str(folder / "data")
            if first():
                put(logged, folder / "data")
        run.held = held.pop_all()
    arguments.training.output_dir = str(run.checkpoints)
    held_out = f"validated on {len(data.validation)}" if data.validation is not None else "without validation"
    say(f"Training {folder} on {len(data.train)} rows, {held_out}")
    return run


def claim(run: Run, held: ExitStack) -> bool:
    """Take the run's folder for this process. False where it holds a finished model that is not to be trained anew."""
    if first():
        held.enter_context(folder_lock(run.folder))
    run.finished = is_finished(run.folder) and not run.arguments.options.overwrite
    if run.finished:
        say(f"{run.folder} is trained already; --overwrite trains it anew")
    return not run.finished


def _check_size(run: Run, parsed: Namespace, shape: Shape) -> None:
    """Tell which rows are too long, and refuse what would run out of memory."""
    training = run.arguments.training
    limit = getattr(training, "max_length", None)
    longest, beyond = longest_row(run.data.train, run.tokenizer, limit)
    if beyond == len(run.data.train):
        raise bad_input(
            f"Every row of {run.dataset} has more tokens than --max_length {limit}, so its answer would be cut off; "
            "raise the limit"
        )
    if beyond:
        say(f"{beyond} of {len(run.data.train)} rows have more tokens than --max_length {limit}: cut or left out")
    parsed.per_device_train_batch_size = min(parsed.per_device_train_batch_size, len(run.data.train))
    check_fits(run, parsed, shape, longest)


def check_fits(run: Run, parsed: Namespace, shape: Shape, longest: int) -> None:
    """Refuse what would run out of memory with rows of so many tokens."""
    if parsed.ignore_memory:
        return
    training = run.arguments.training
    mixed = bool(training.bf16 or training.fp16)
    load = load_of(run.method, parsed, longest, bool(training.gradient_checkpointing), mixed)
    configuration = launched_configuration(training.world_size)
    need = predict(shape, load, configuration, training.world_size)
    check_memory(need, device_memory(), configuration, training.world_size)


def first() -> bool:
    """Whether this is the first of the processes that train together."""
    return os.environ.get("RANK", "0") == "0"


def say(message: str) -> None:
    """Tell what happens, once where several processes train together."""
    if first():
        print(message, flush=True)
