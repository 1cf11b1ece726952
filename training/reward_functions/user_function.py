"""A user's reward function, as TRL takes them, on rollouts."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from hashlib import sha256
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from inspect import isawaitable
from math import isfinite
from numbers import Real
from pathlib import Path
from types import ModuleType
from typing import cast

from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.evallog.errors import bad_input
from truthgym.training.reward_functions.builtin import share_read
from truthgym.training.reward_functions.formulas import PROPER, Rewards
from truthgym.training.reward_functions.rollout import Rollout

Function = Callable[..., Rewards | Awaitable[Rewards]]
FIELDS = ("task", "sample_id", "epoch", "target", "scores")
"""Of a rollout, given to the function as columns, beside those of its sample's metadata."""
TAKEN = ("prompts", "completions", "completion_ids", "log_metric")
"""What else it is given. A field of the metadata that has such a name is not."""


@dataclass
class FunctionReward:
    """A function `f(prompts, completions, **columns)` that returns a reward for each completion, or None for some."""

    name: str
    function: Function
    figures: dict[str, float] = field(default_factory=dict, init=False)
    """What it logged of the last batch, with `log_metric`."""

    @property
    def proper(self) -> bool:
        """Proper scores of ours, and functions that say so with an attribute `proper`."""
        module, called = (getattr(self.function, part, "") for part in ("__module__", "__name__"))
        ours = module.startswith("truthgym.") and called in (*PROPER, "martingale", "python_brier", "model_brier")
        return ours or bool(getattr(self.function, "proper", False))

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """Rewards of a batch. A failed run is not shown to the function, and has none.

        Raises:
            BadInput: The function raises, returns another number of rewards than there are completions, or one that
                is no finite number.
        """
        self.figures.clear()
        ran = [rollout for rollout in rollouts if not rollout.error]
        try:
            given = self._ask(ran) if ran else []
        except PrerequisiteError:
            raise
        except (Exception, SystemExit) as error:  # a user's function may raise anything, and the run must say so
            raise self._raised(ran, error) from error
        rewards = iter(self._checked(ran, given))
        return [None if rollout.error else next(rewards) for rollout in rollouts]

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """Not known of a function."""
        return None

    def read(self, rollouts: Sequence[Rollout]) -> float:
        return share_read(rollouts)

    def _ask(self, ran: Sequence[Rollout]) -> object:
        names = dict.fromkeys(name for rollout in ran for name in rollout.metadata if name not in TAKEN)
        columns = {name: [rollout.metadata.get(name) for rollout in ran] for name in names}
        columns |= {name: [getattr(rollout, name) for rollout in ran] for name in FIELDS}
        prompts = [[{"role": "user", "content": rollout.question}] for rollout in ran]
        completions = [[{"role": "assistant", "content": rollout.answer}] for rollout in ran]
        ids = [[0] * rollout.tokens for rollout in ran]  # only their number is known

        def call() -> object:
            given = self.function(
                prompts=prompts, completions=completions, completion_ids=ids, log_metric=self._log, **columns
            )
            return asyncio.run(_awaited(given)) if isawaitable(given) else given

        # In a thread of its own: the trainer's may have a loop running, in which nothing can be waited for.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call).result()

    def _raised(self, ran: Sequence[Rollout], error: BaseException) -> Exception:
        """Say which completion a function fails on, if it fails on one by itself."""
        for rollout in ran if len(ran) > 1 else ():
            try:
                self._ask([rollout])
            except (Exception, SystemExit) as alone:
                return self._raised([rollout], alone)
        where = f"sample {ran[0].sample_id} of {ran[0].task} (epoch {ran[0].epoch}), which ends {ran[0].answer[-60:]!r}"
        shown = f"{len(ran)} completions at once" if len(ran) > 1 else where
        return bad_input(
            f"reward={self.name}: it raised {type(error).__name__}: {error} for {shown}; mend it, and return None "
            "where there is no reward"
        )

    def _log(self, name: str, value: float) -> None:
        self.figures[name] = value

    def _checked(self, ran: Sequence[Rollout], given: object) -> Rewards:
        returned = given.tolist() if hasattr(given, "tolist") else given
        if not isinstance(returned, list | tuple):
            raise bad_input(
                f"reward={self.name}: it returned {given!r:.60}; return a list with a reward for each completion"
            )
        if len(returned) != len(ran):
            raise bad_input(
                f"reward={self.name}: it returned {len(returned)} rewards for {len(ran)} completions; return one for "
                "each, None where there is none"
            )
        for rollout, reward in zip(ran, returned, strict=True):
            if reward is not None and (not isinstance(reward, Real) or not isfinite(reward)):
                raise bad_input(
                    f"reward={self.name}: it returned {reward!r:.60} for sample {rollout.sample_id} of {rollout.task} "
                    f"(epoch {rollout.epoch}), which ends {rollout.answer[-60:]!r}; return a finite number, or None "
                    "where there is no reward"
                )
        return [None if reward is None else float(reward) for reward in returned]


async def _awaited(given: Awaitable[Rewards]) -> Rewards:
    return await given


def load_function(name: str) -> Function:
    """Find a function by "FILE.py:FUNCTION" or "package.module.FUNCTION".

    Raises:
        BadInput: There is none of that name, or it cannot be loaded.
    """
    place, called = _parts(name)
    try:
        module = _from_file(Path(place)) if place.endswith(".py") else import_module(place)
    except (Exception, SystemExit) as error:  # what stands in a user's file may raise anything
        raise bad_input(
            f"reward={name}: {place} cannot be loaded ({type(error).__name__}: {error}); write FILE.py:FUNCTION, or "
            "package.module.FUNCTION of what is installed"
        ) from None
    function = getattr(module, called, None)
    if not callable(function):
        raise bad_input(f"reward={name}: {place} has no function {called!r}")
    return cast(Function, function)


def hash_of_source(name: str) -> str | None:
    """SHA-256 of the file that a user's function is named by, and of the one that it stands in where that is another.

    What these files import does not count.

    Args:
        name: As `load_function` takes it.

    Returns:
        None for a function of ours, and where there is no file.

    Raises:
        BadInput: As `load_function`.
    """
    place, _ = _parts(name)
    if place.endswith(".py"):
        files = {Path(place)}
    elif place.startswith("truthgym."):
        files = set()
    else:
        modules = (place, load_function(name).__module__)
        files = {Path(getattr(sys.modules.get(module), "__file__", None) or "") for module in modules}
    read = [file.read_bytes() for file in sorted(files) if file.is_file()]
    return sha256(b"".join(read)).hexdigest() if read else None


def _parts(name: str) -> tuple[str, str]:
    """The file or module, and the function in it."""
    place, _, called = name.rpartition(":" if ".py:" in name else ".")
    return place, called


def _from_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"reward_functions_in_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError("there is no such file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses and pickle look for the module of a class
    spec.loader.exec_module(module)
    return module
