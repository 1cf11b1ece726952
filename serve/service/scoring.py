"""Scores one item by the path of `inspect score`: the same rebuilt sample, scorer and models."""

import json
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from math import isnan
from typing import Annotated, Any, Literal

from inspect_ai.log import EvalSample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    Model,
    ModelOutput,
    get_model,
)
from inspect_ai.solver import TaskState
from inspect_ai.util import registry_create
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from truthgym.datasets.digests import canonical_json
from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import registry_info, registry_unqualified_name, task_state_from_sample
from truthgym.datasets.question import Question, asked_text, question_metadata, question_of
from truthgym.scorers.rubrics.extraction import Extraction, insert
from truthgym.scorers.rubrics.reward import ModelSpec, read_reward
from truthgym.scorers.rubrics.rubric import Rubric, applicable, model_from
from truthgym.scorers.statistics.direction import fault_of
from truthgym.serve.service.guard import log_traceback
from truthgym.serve.service.rates import ITEM, SETUP, STATUSES, Rates, limit
from truthgym.serve.spec import RewardSpec
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.training.reward_functions.resolve import parse_scorer_reward
from truthgym.training.reward_functions.rollout import Rollout

TASK = "serve"
NO_MODEL = "none/none"
Role = Literal["system", "user", "assistant"]
ROLES: dict[Role, type[ChatMessage]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


class Message(BaseModel, frozen=True, extra="ignore"):
    role: Role
    content: str


class Item(BaseModel, frozen=True, extra="forbid"):
    """A prompt and a reply to score."""

    prompt: str | list[Message]
    response: str
    target: Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, int | float) else value)] = ""
    """The truth, if the scorer needs it: "yes" or "no", true or false, 1 or 0 for a binary question."""
    metadata: dict[str, Any] = Field(default_factory=dict)
    """Fields of a `Question`, and others that the scorer reads."""
    question: str | None = None
    """The question as it was asked, if the prompt says more than that; by default the last user message."""
    id: str | None = None
    epoch: int = Field(default=1, ge=1)

    @cached_property
    def digest(self) -> str:
        return sha256(canonical_json(self.model_dump()).encode()).hexdigest()

    @property
    def characters(self) -> int:
        """Of all its texts, and 100 for each message: empty ones take time, too."""
        prompt = self.prompt if isinstance(self.prompt, str) else "".join(message.content for message in self.prompt)
        rest = json.dumps(self.metadata, ensure_ascii=False) if self.metadata else ""
        texts = (prompt, self.response, self.question or "", self.target, self.id or "", rest)
        return sum(map(len, texts)) + (0 if isinstance(self.prompt, str) else 100 * len(self.prompt))

    @property
    def messages(self) -> list[ChatMessage]:
        if isinstance(self.prompt, str):
            return [ChatMessageUser(content=self.prompt)]
        return [ROLES[message.role](content=message.content) for message in self.prompt]


@dataclass(frozen=True)
class Result:
    """The outcome of scoring an item. A failure has no score and no reward: never 0."""

    score: float | None = None
    """The scorer's number."""
    reward: float | None = None
    """The number to train on, higher is better. An answer that cannot be read has the lowest of the range."""
    reason: str | None = None
    """Why there is no score."""
    code: str | None = None
    """`unread` (the answer's fault), `not_applicable`, `unknown_prompt`, `judge_failed`, `judge_reply`,
    `judge_refused` (this item), `judge_setup` (every item), `timeout`, `deadline`, `bad_item` or `internal`; None if
    there is a score."""
    retryable: bool = False
    fallback: bool = False
    """Whether the global rubric was applied, since the prompt and its domain have none of their own."""
    canary: float | None = None
    """By how much the reward rose when the reply asked for full marks, if that was tried."""

    def payload(self, index: int) -> dict[str, Any]:
        result: dict[str, Any] = {
            "index": index, "ok": self.code is None, "score": self.score, "reward": self.reward, "error": None,
        }  # fmt: skip
        if self.code:
            result["error"] = {"code": self.code, "reason": self.reason, "retryable": self.retryable}
        if self.fallback:
            result["fallback"] = "global"
        if self.canary is not None:
            result["canary_rise"] = self.canary
        return result


UNKNOWN_PROMPT = Result(
    reason="No rubric is for this prompt or its domain; serve with --unknown-prompt global to use the global one.",
    code="unknown_prompt",
)
NO_TARGET = Result(
    reason="The item has no target, and this scorer compares the reply with it; send target, or the trainer's label.",
    code="not_applicable",
)
JUDGE_FAILED = Result(reason="The judge could not be reached.", code="judge_failed", retryable=True)
JUDGE_SETUP = Result(
    reason="The judge's provider refuses every call (401, 403 or 404); check its key, address and model.",
    code="judge_setup",
    retryable=True,
)
JUDGE_REFUSED = Result(
    reason="The judge's provider refuses this item (400, 413 or 422): it is too long, or against its policy.",
    code="judge_refused",
)


class Source:
    """A specification with its scorer and models loaded."""

    def __init__(self, spec: RewardSpec, max_connections: int = 100, rates: Rates | None = None) -> None:
        """Load everything that can fail before the first item."""
        self.spec = spec
        self.rates = rates or Rates()
        self.digest, self.made_of = spec.identity()
        name = spec.scorer.removeprefix("truthgym/")
        try:
            self.scorer = registry_create(
                "scorer", f"truthgym/{name}" if name in SCORER_BY_NAME else spec.scorer, **spec.options
            )
        except (LookupError, TypeError) as error:
            scorers = ", ".join(sorted(SCORER_BY_NAME))
            raise BadInput(
                f"scorer={spec.scorer} cannot be made ({error}); known: {scorers}, and registered ones"
            ) from None
        self.name = registry_unqualified_name(self.scorer)
        self.compares = registry_info(self.scorer).name.startswith("inspect_ai/")
        self.reward = parse_scorer_reward(spec.reward or self.name, {TASK: [self.name]})
        declaration = SCORER_BY_NAME.get(name)
        missing = sorted(set(declaration.roles(**spec.options)) - set(spec.roles)) if declaration else []
        if missing:
            raise BadInput(
                f"{name} needs the role {missing[0]}, and no model has it; add --model-role {missing[0]}=MODEL"
            )
        if declaration and declaration.asks_model(**spec.options):
            options = "".join(f" -S {option}={value}" for option, value in spec.options.items())
            raise BadInput(
                f"{name}{options} asks the evaluated model itself, and a server has none; serve one that reads the "
                "reply alone, such as brier without options, or score logs with inspect score"
            )
        if declaration and declaration.needs_sandbox(**spec.options):
            raise BadInput(
                f"{name} needs a sandbox here, and a server has none; set trusted=true if the program is yours"
            )
        self.roles: dict[str, Model | list[Model]] = {
            role: _models(role, value, max_connections, self.rates) for role, value in spec.roles.items()
        }
        judge_role = "" if name != "rubric" else str(spec.options.get("role", "judge"))
        self.rubrics: tuple[Rubric, ...] = ()
        if judge_role:
            reward, _ = read_reward(spec.options.get("rubric", "truth_seeking"))
            self.rubrics = reward.rubrics
            if judge_role not in self.roles:  # an artifact's own judges, under the server's limits
                self.roles[judge_role] = _models(judge_role, reward.judges, max_connections, self.rates)
        self.model = get_model(NO_MODEL)

    async def close(self) -> None:
        for value in self.roles.values():
            for model in value if isinstance(value, list) else [value]:
                try:
                    await model.__aexit__(None, None, None)
                except Exception as error:  # a provider may raise anything, and nothing waits for it any more
                    log_traceback(f"closing {model}", error)

    def _falls_back(self, state: TaskState) -> bool:
        """Whether some rubrics are for prompts or domains, and none of these is for this one."""
        if all(rubric.scope == "global" for rubric in self.rubrics):
            return False
        rubric = applicable(self.rubrics, asked_text(state), question_of(state, Question).domain)
        return rubric is None or rubric.scope == "global"

    def insert(self, response: str, addition: str) -> str:
        """A reply with an addition that the judge sees: at the end of the part that a rubric extracts."""
        if self.name != "rubric":
            return response + addition
        reward, _ = read_reward(self.spec.options.get("rubric", "truth_seeking"))
        extraction = self.spec.options.get("extraction")
        how = model_from(Extraction, extraction, "extraction") if extraction else reward.protocol.extraction
        return insert(response, how, addition)

    async def score(self, item: Item) -> Result:
        """Score an item as `inspect score` would. It raises nothing."""
        from truthgym.datasets.inspect_private import PrerequisiteError

        identity = item.id or f"item-{item.digest[:16]}"
        statuses: list[int] = []
        STATUSES.set(statuses)
        if self.compares and not item.target.strip():
            return NO_TARGET
        try:
            sample = _sample(item, identity, item.epoch)
            rebuilt = task_state_from_sample(
                sample, model=self.model, model_name=NO_MODEL, model_roles=self.roles, append_scores=False
            )
            fallback = self._falls_back(rebuilt.state)
            if fallback and (self.spec.unknown_prompt == "error" or not any(not r.applies_to for r in self.rubrics)):
                return UNKNOWN_PROMPT
            score = await self.scorer(rebuilt.state, rebuilt.target)
            if score is None:
                return Result(reason="The scorer gave no score.", code="not_applicable")
            reason, fault = str((score.metadata or {}).get("reason") or ""), fault_of(score.metadata or {})
            if reason and fault == "unreachable":
                return _refused(statuses) or JUDGE_FAILED
            rollout = Rollout(
                TASK, identity, item.epoch, sample.input if isinstance(sample.input, str) else "", item.target,
                sample.metadata, {self.name: score}, item.response, len(item.response.split()),
            )  # fmt: skip
            number, reward = self.reward.reading(rollout), self.reward([rollout])[0]
        except PrerequisiteError as error:
            return Result(reason=str(error.message)[:500], code="bad_item")
        except ValidationError:
            return Result(
                reason="The item's metadata is not that of a question; see docs/own_task.md.", code="bad_item"
            )
        except Exception as error:  # a scorer may raise anything, and the other items must not suffer
            kind = type(error).__name__
            log_traceback(f"item {item.digest[:16]}", error)
            return Result(reason=f"The scorer raised {kind}.", code="internal", retryable=isinstance(error, OSError))
        if number.judge == "unread":
            return _refused(statuses) or Result(
                reason="The judge's reply could not be read.", code="judge_reply", retryable=True
            )
        if number.value is None:
            return Result(reason=reason or "There is no truth to score by.", code="not_applicable")
        if not isnan(number.value):
            return Result(score=number.value, reward=reward, fallback=fallback)
        why = reason or "The answer could not be read."
        return Result(reward=reward, reason=why, code="unread", fallback=fallback)


def _refused(statuses: list[int]) -> Result | None:
    """The result of an item whose last call was refused, if the status says whose fault that is."""
    last = statuses[-1] if statuses else 0
    return JUDGE_REFUSED if last in ITEM else JUDGE_SETUP if last in SETUP else None


def _models(role: str, value: object, max_connections: int, rates: Rates) -> Model | list[Model]:
    """The model or models of a role, as `--model-role` takes them, without endless repetitions of a call."""
    if isinstance(value, list | tuple):
        models = [_models(role, model, max_connections, rates) for model in value]
        return [model for model in models if isinstance(model, Model)]
    try:
        spec = value if isinstance(value, ModelSpec) else ModelSpec.model_validate(
            {"model": value} if isinstance(value, str) else value
        )  # fmt: skip
    except ValidationError as error:
        problem = error.errors()[0]["msg"]
        raise BadInput(f"role {role}: it names no model ({problem}); write NAME, or a mapping with `model`") from None
    return limit(spec.load(max_connections=max_connections, max_retries=1), rates.rate_of(spec.model))


def _sample(item: Item, identity: str, epoch: int) -> EvalSample:
    messages = item.messages
    asked = item.question or next((message.text for message in reversed(messages) if message.role == "user"), "")
    try:
        Question.model_validate(item.metadata)
        metadata = item.metadata
    except ValidationError:
        fields = {key: value for key, value in item.metadata.items() if key in Question.model_fields and key != "split"}
        metadata = item.metadata | question_metadata(identity, asked, item.target, **fields)
    output = ModelOutput.from_content(NO_MODEL, item.response)
    return EvalSample(
        id=identity,
        epoch=epoch,
        input=asked,
        target=item.target,
        messages=[*messages, output.choices[0].message],
        output=output,
        metadata=metadata,
    )
