"""The solver of the progress tasks: a judge leads an examinee through the sample's timeline."""

import importlib
import importlib.util
from collections.abc import Awaitable, Mapping
from functools import partial
from inspect import isclass
from pathlib import Path
from typing import Any, TypeVar, cast

import anyio
from anyio import from_thread, to_thread
from inspect_ai.log import transcript
from inspect_ai.model import ModelOutput, get_model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.progress.questionnaire import IN_USE, questionnaire
from truthgym.datasets.progress.timelines import TimelineQuestion
from truthgym.datasets.question import question_of
from truthgym.models.agents.proxies import Proxies, people
from truthgym.models.agents.respondent import Elicitation, Respondent
from truthgym.scorers.progress.examinees import EXAMINEES
from truthgym.scorers.progress.framework import ExamineeBase, JudgeBase, Setting
from truthgym.scorers.progress.judges import CoevolveJudge, DummyJudge, FollowJudge, PredictJudge
from truthgym.scorers.progress.record import RESULT

Kind = TypeVar("Kind")
JUDGES: dict[str, type[JudgeBase]] = {
    "follow": FollowJudge,
    "predict": PredictJudge,
    "coevolve": CoevolveJudge,
    "dummy": DummyJudge,
}
"""The values of `-T judge=`."""
THREADS = 64
"""Timelines at once."""


def load_class(what: str, name: str, known: Mapping[str, type[Kind] | str], base: type[Kind]) -> type[Kind]:
    """A class by its name, which may stand for MODULE:CLASS, or from a file: FILE.py:CLASS."""
    path, _, attribute = name.rpartition(":")
    if not path.endswith(".py"):
        one_of(what, name, [*known, "FILE.py:CLASS"])
        known_class = known[name]
        if not isinstance(known_class, str):
            return known_class
        place, _, attribute = known_class.partition(":")
        return cast(type[Kind], getattr(importlib.import_module(place), attribute))
    if not Path(path).is_file():
        raise BadInput(f"{what}={name}: there is no file {path}; give its path as FILE.py:CLASS")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    loaded = getattr(module, attribute, None)
    if not isclass(loaded) or not issubclass(loaded, base):
        raise BadInput(f"{what}={name}: {path} has no class {attribute!r} that extends {base.__name__}")
    left = sorted(getattr(loaded, "__abstractmethods__", ()))
    if left:
        raise BadInput(f"{what}={name}: {attribute} does not implement {', '.join(left)}; add them")
    return loaded


@solver
def timeline(
    judge: str = "follow",
    examinee: str = "in_context",
    proxies: Proxies = "simulated",
    source: str = "bundled",
    items: int | None = None,
    elicitation: Elicitation = "logprobs",
    cache: bool = True,
    arguments: Mapping[str, Any] | None = None,
) -> Solver:
    """Let the evaluated model live through a timeline as an examinee, and leave the judge's result in the store."""
    passed = dict(arguments or {})
    judge_class = load_class("judge", judge, JUDGES, JudgeBase)  # type: ignore[type-abstract]
    examinee_class = load_class("examinee", examinee, EXAMINEES, ExamineeBase)
    used = questionnaire(source, items)
    limiter: list[anyio.CapacityLimiter] = []  # made when a loop runs

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        known = question_of(state, TimelineQuestion)
        IN_USE.set(used)
        size, texts = str(passed.get("judge_model_size", "8B")), passed.get("texts")
        model = get_model()
        setting = Setting(
            eras=known.eras,
            proxies=people(proxies, known, size, texts, elicitation, cache, float(passed.get("noise", 0))),
            examinee=Respondent(lambda: model, "examinee", elicitation=elicitation, cache=cache),
            questionnaire=used,
            wait=_wait,
            seed=state.epoch,
            emit=_emit,
        )
        if not limiter:
            limiter.append(anyio.CapacityLimiter(THREADS))
        test = partial(judge_class(**passed).test, examinee_class(**passed), setting=setting)
        result = await to_thread.run_sync(test, limiter=limiter[0])
        names = {"judge": judge_class.__name__, "examinee": examinee_class.__name__}
        state.store.set(RESULT, {**result, **names, "interpreted": judge_class.interpret_result(result)})
        state.output = ModelOutput.from_content(str(model), f"{judge_class.__name__}: score {result.get('score')}")
        return state

    return solve


def _wait(awaitable: Awaitable[Any]) -> Any:  # noqa: ANN401
    async def result() -> Any:  # noqa: ANN401
        return await awaitable

    return from_thread.run(result)


def _emit(event: str, facts: Mapping[str, Any]) -> None:
    from_thread.run_sync(lambda: transcript().info({"event": event, **facts}, source="progress"))
