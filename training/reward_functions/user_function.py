"""A user's reward function, with the signature that TRL uses, as a reward of rollouts."""

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
from traceback import extract_tb
from types import ModuleType
from typing import Any, cast

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.datasets.question import binary_outcome
from truthgym.training.lineage import digest_of
from truthgym.training.reward_functions.builtin import BUILTIN, share_read
from truthgym.training.reward_functions.formulas import Rewards
from truthgym.training.reward_functions.rollout import Rollout

Function = Callable[..., Rewards | Awaitable[Rewards]]
ROLLOUT_COLUMNS = ("task", "sample_id", "epoch", "target", "scores")
"""Fields of a rollout that the function gets as columns, besides those of its sample's metadata."""
SERVER = ("http://", "https://")
RESERVED_COLUMNS = ("prompts", "completions", "completion_ids", "log_metric")
"""Its other arguments. A metadata field of the same name is not passed."""
PROPER_FUNCTIONS = {name for name, reward in BUILTIN.items() if reward.proper} | {"python_brier", "model_brier"}


@dataclass
class FunctionReward:
    """A function `f(prompts, completions, **columns)` that returns one reward or None per completion: a `Reward`."""

    name: str
    """As the user gave it, without keys."""
    function: Function
    figures: dict[str, float] = field(default_factory=dict, init=False)
    """What it logged for the last batch with `log_metric`."""

    @property
    def proper(self) -> bool:
        """True for Truthgym's proper scores, and for functions with a true attribute `proper`."""
        module, name = (getattr(self.function, part, "") for part in ("__module__", "__name__"))
        builtin = module.startswith("truthgym.") and name in PROPER_FUNCTIONS
        return builtin or bool(getattr(self.function, "proper", False))

    def __call__(self, rollouts: Sequence[Rollout]) -> Rewards:
        """One reward per rollout: the function's, the batch's lowest if it crashed, None if a model call failed."""
        self.figures.clear()
        finished = [rollout for rollout in rollouts if not rollout.error]
        try:
            returned = self._call(finished) if finished else []
        except PrerequisiteError:
            raise
        except Exception as error:  # a user's function may raise anything, and the run must report it
            place = extract_tb(error.__traceback__)[-1]
            raise BadInput(
                f"reward={self.name}: it raised {type(error).__name__}: {error} ({place.filename}, line "
                f"{place.lineno}) on {len(finished)} completions; fix it, and return None if there is no reward"
            ) from error
        rewards = self._validated(finished, returned)
        lowest = min((reward for reward in rewards if reward is not None), default=None)
        values = iter(rewards)
        return [(lowest if rollout.crashed else None) if rollout.error else next(values) for rollout in rollouts]

    @property
    def sources(self) -> dict[str, str]:
        """What it is made of, by name with its digest: its file, or what a server says that it scores with."""
        if sources := getattr(self.function, "sources", None):
            try:
                return dict(sources())
            except RuntimeError as error:
                raise BadInput(f"reward={self.name}: {error}; start it with `truthgym serve`") from None
        place = _split(self.name)[0]
        return {place: digest_of(place)} if place.endswith(".py") else {}

    def baseline(self, rollouts: Sequence[Rollout]) -> float | None:
        """Unknown for a function."""
        return None

    def read(self, rollouts: Sequence[Rollout]) -> float:
        """NaN where no question has a yes or no for an answer."""
        return share_read([one for one in rollouts if binary_outcome(one.target, one.metadata) is not None])

    def _call(self, rollouts: Sequence[Rollout]) -> object:
        names = dict.fromkeys(name for rollout in rollouts for name in rollout.metadata if name not in RESERVED_COLUMNS)
        columns = {name: [rollout.metadata.get(name) for rollout in rollouts] for name in names}
        columns |= {name: [getattr(rollout, name) for rollout in rollouts] for name in ROLLOUT_COLUMNS}
        prompts = [[{"role": "user", "content": rollout.question}] for rollout in rollouts]
        completions = [[{"role": "assistant", "content": rollout.answer}] for rollout in rollouts]
        ids = [[0] * rollout.tokens for rollout in rollouts]  # only their number is known

        def call() -> object:
            returned = self.function(
                prompts=prompts, completions=completions, completion_ids=ids, log_metric=self._log, **columns
            )
            return asyncio.run(_await(returned)) if isawaitable(returned) else returned

        # In its own thread: the trainer's thread may have a running event loop, in which nothing can be awaited.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(call).result()

    def _log(self, name: str, value: float) -> None:
        self.figures[name] = value

    def _validated(self, rollouts: Sequence[Rollout], returned: object) -> Rewards:
        rewards: Any = returned.tolist() if hasattr(returned, "tolist") else returned
        problem = None
        if not isinstance(rewards, list | tuple):
            problem = f"{returned!r:.60}"
        elif len(rewards) != len(rollouts):
            problem = f"{len(rewards)} rewards for {len(rollouts)} completions"
        else:
            for rollout, reward in zip(rollouts, rewards, strict=True):
                if reward is not None and (not isinstance(reward, Real) or not isfinite(reward)):
                    problem = f"{reward!r:.60} for sample {rollout.sample_id} of {rollout.task} (epoch {rollout.epoch})"
        if problem:
            raise BadInput(
                f"reward={self.name}: it returned {problem}; return a list with one finite number per completion, or "
                "None if there is no reward"
            )
        return [None if reward is None else float(reward) for reward in rewards]


async def _await(returned: Awaitable[Rewards]) -> Rewards:
    return await returned


def load_function(name: str) -> Function:
    """Load "FILE.py:FUNCTION", "package.module.FUNCTION", or the address of a server, which "#DIGEST" may pin."""
    if name.startswith(SERVER):
        from truthgym.training.served_rewards import served

        address, _, digest = name.partition("#")
        return served(address, digest)
    place, function_name = _split(name)
    try:
        module = _load_file(Path(place)) if place.endswith(".py") else import_module(place)
    except Exception as error:  # a user's file may raise anything
        raise BadInput(
            f"reward={name}: {place} cannot be loaded ({type(error).__name__}: {error}); use FILE.py:FUNCTION, or "
            "package.module.FUNCTION of an installed package"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        raise BadInput(f"reward={name}: {place} has no function {function_name!r}")
    return cast(Function, function)


def hash_of_source(name: str) -> str | None:
    """SHA-256 of the files by which a user's function is named and in which it is defined, without what they import."""
    place, _ = _split(name)
    if name.startswith(SERVER):
        return None
    if place.endswith(".py"):
        files = {Path(place)}
    elif place.startswith("truthgym."):
        files = set()
    else:
        modules = (place, load_function(name).__module__)
        files = {Path(getattr(sys.modules.get(module), "__file__", None) or "") for module in modules}
    contents = [file.read_bytes() for file in sorted(files) if file.is_file()]
    return sha256(b"".join(contents)).hexdigest() if contents else None


def _split(name: str) -> tuple[str, str]:
    """The file or module, and the function's name."""
    place, _, function = name.rpartition(":" if ".py:" in name else ".")
    return place, function


def _load_file(path: Path) -> ModuleType:
    spec = spec_from_file_location(f"reward_functions_in_{path.stem}", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise FileNotFoundError("there is no such file")
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses and pickle look a class's module up by name
    spec.loader.exec_module(module)
    return module
