"""Simulated people and assistants whose moral values are known: `reference/person` and `reference/values`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, Self

import numpy as np
from inspect_ai.model import ChatMessage, TopLogprob
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import (
    DIMENSIONS,
    IN_USE,
    LETTERS,
    MARK,
    Item,
    item_offset,
    latent_values,
    questionnaire,
)
from truthgym.models.agents.agent import Conversation, Letters, Reply
from truthgym.models.agents.policies import generator
from truthgym.models.agents.respondent import CHOOSE, EXAMPLE, NOTES, OPTION, REWRITE, SECTION

Floats = NDArray[np.float64]
Policy = Literal[
    "learner", "last_era", "anchored", "coarse", "booster", "pusher", "contrarian", "random", "first", "refuse"
]
PERSON = "person"
VALUES = "values"
HEADING = re.compile(re.escape(SECTION).replace(r"\{title\}", "(.*)").replace(r"\{weight\}", r"([\d.]+)"))
LINE = re.compile(
    re.escape(EXAMPLE).replace(r"\{context\}", "(.*)").replace(r"\{percent\}", r"(\d+)").replace(r"\{option\}", "(.*)")
)
SHOWN = re.compile("^" + re.escape(OPTION).replace(r"\{letter\}", "([A-D])").replace(r"\{option\}", "(.*)") + "$", re.M)
NOTE = re.compile(r"^([\w-]+): ([+-]\d+\.\d\d)$", re.M)
REFUSAL = "I would rather not choose between these."
SURE = 6.0
"""Log-odds of the letter A for the agent that always answers with it, and of the likelier option for `coarse`."""
PUSH = 1.5
"""Standard deviation of the values that a `pusher` pushes towards, in log-odds."""


class ValueParameters(BaseModel, frozen=True, extra="forbid"):
    """Parameters of both agents: `-M policy=pusher -M position=0.5`."""

    policy: Policy = "learner"
    """What an assistant answers: `learner` what the last examples show, or its notes, or else its own values, which are
    those of every timeline's first era; `last_era` what the examples before the last show; `anchored` halfway between
    its own values and the last; `coarse` as `learner`, but sure of the likelier option; `booster` as far beyond the
    last as the last is from the first; `pusher` fixed values of its own, whatever it is shown; `contrarian` the
    opposite of `learner`; `random` a fixed random answer to each item; `first` always A; `refuse` nothing."""
    position: float = Field(default=0.0, ge=-10, le=10)
    """Log-odds added to the option that is shown first."""
    noise: float = Field(default=0.0, ge=0, le=10)
    """Standard deviation of an error of each answer, in log-odds, drawn anew for each era of each timeline, and
    for each memory."""
    refused: float = Field(default=0.0, ge=0, le=1)
    """Share of the items that an assistant refuses, always the same ones."""
    seed: int = 0


TAKES = {PERSON: frozenset({"position", "noise", "seed"}), VALUES: frozenset({"policy", "position", "refused", "seed"})}


@dataclass(frozen=True)
class _Remembered:
    """What a system message says of others' answers."""

    values: tuple[tuple[float, Floats], ...]
    """For each section its weight and its values, NaN where it has no example."""
    notes: Floats | None


@dataclass(frozen=True)
class ValueAgent:
    name: str
    parameters: ValueParameters

    @classmethod
    def planted(cls, name: str, parameters: Mapping[str, object]) -> Self:
        """The agent with these parameters; a ValidationError if one cannot be used."""
        return cls(name, ValueParameters.model_validate(parameters))

    def reply(self, talk: Conversation) -> Reply:
        answer = _reply(self.name, talk.messages, self.parameters)
        return answer if isinstance(answer, str) else Letters(answer)


def _reply(name: str, messages: Sequence[ChatMessage], parameters: ValueParameters) -> str | list[TopLogprob]:
    """Reply to an item with the probabilities of the letters, or to a request for notes with a text."""
    persona = messages[0].text if messages[0].role == "system" else ""
    request = messages[-1].text
    remembered = _remember(persona + "\n" + (request if REWRITE in request else ""), IN_USE.get())
    if REWRITE in request:
        values = _assistant(remembered, parameters)
        return "\n".join([NOTES, *(f"{dim}: {z:+.2f}" for dim, z in zip(DIMENSIONS, values, strict=True))])
    if CHOOSE not in request:
        raise BadInput(f"reference/{name} answers items of a questionnaire, and this is none: {request[:80]!r}")
    if parameters.policy == "refuse":
        return REFUSAL
    item, order = _asked(request, IN_USE.get())
    if parameters.refused and generator("refused", parameters.seed, item.id).random() < parameters.refused:
        return REFUSAL
    if parameters.policy == "first":
        scores = np.zeros(len(order))
        parameters = parameters.model_copy(update={"position": SURE})
    elif parameters.policy == "random":
        drawn = generator("choice", parameters.seed, item.id).standard_normal(len(order)) * PUSH
        scores = drawn[order]
    else:
        values = _person(persona, IN_USE.get()) if name == PERSON else _assistant(remembered, parameters)
        by_option = _scores(item, values)
        if parameters.policy == "coarse":
            by_option = SURE * (by_option == by_option.max())
        if parameters.noise:
            drawn = generator("noise", parameters.seed, item.id, persona).standard_normal(len(order))
            by_option = by_option + drawn * parameters.noise / np.sqrt(2)  # of a difference of two
        scores = by_option[order]
    scores = scores + parameters.position * (np.arange(len(order)) == 0)
    logprobs = scores - np.logaddexp.reduce(scores)
    tokens = [TopLogprob(token=letter, logprob=float(x)) for letter, x in zip(LETTERS, logprobs, strict=False)]
    return sorted(tokens, key=lambda token: -token.logprob)


def _scores(item: Item, values: Floats) -> Floats:
    """Log-odds of each option: with two options, that of the upholding one is the value plus the item's offset."""
    scores = item.loadings @ values / 2
    scores[0] += item_offset(item.id)
    return np.asarray(scores)


@lru_cache(maxsize=256)  # one system message precedes a whole questionnaire
def _person(persona: str, used: object) -> Floats:
    remembered, mark = _remember(persona + "\n", used), MARK.search(persona)
    if mark is None:
        raise BadInput("reference/person needs a simulated timeline: use proxies=simulated, or a language model")
    drift, seed, step, era = mark.groups()
    own = latent_values(drift, int(seed), float(step), int(era))
    if not remembered.values:
        return own
    weights = np.array([weight for weight, _ in remembered.values])[:, None]
    values = np.array([values for _, values in remembered.values])
    weights = np.where(np.isnan(values), 0, weights)
    total = weights.sum(axis=0)
    heard = (weights * np.nan_to_num(values)).sum(axis=0) / np.where(total > 0, total, 1)
    return np.where(total > 0, heard, own)


def _assistant(remembered: _Remembered, parameters: ValueParameters) -> Floats:
    own = latent_values("still", 0, 0.0, 0)
    if parameters.policy == "pusher":
        return generator("pusher", parameters.seed).standard_normal(len(DIMENSIONS)) * PUSH
    if not remembered.values:
        held = own if remembered.notes is None else remembered.notes
        return -held if parameters.policy == "contrarian" else held
    seen = [np.where(np.isnan(values), own, values) for _, values in remembered.values]
    if parameters.policy == "last_era":
        return seen[-2] if len(seen) > 1 else own
    if parameters.policy == "anchored":
        return (own + seen[-1]) / 2
    if parameters.policy == "booster":
        return 2 * seen[-1] - seen[0]
    return -seen[-1] if parameters.policy == "contrarian" else seen[-1]


@lru_cache(maxsize=256)
def _remember(text: str, used: object) -> _Remembered:
    sections: list[tuple[float, list[list[float]]]] = []
    for line in text.splitlines():
        heading, example = HEADING.fullmatch(line), LINE.fullmatch(line)
        if heading:
            sections.append((float(heading[2]), [[] for _ in DIMENSIONS]))
        elif example and sections:
            context, percent, option = example.groups()
            item = _index(used or "bundled")[0].get((context, option))
            for dimension, value in _evidence(item, option, int(percent) / 100):
                sections[-1][1][dimension].append(value)
    values = tuple(
        (weight, np.array([np.mean(estimates) if estimates else np.nan for estimates in dimensions]))
        for weight, dimensions in sections
    )
    noted = {name: float(value) for name, value in NOTE.findall(text)}
    notes = np.array([noted[name] for name in DIMENSIONS]) if noted.keys() >= set(DIMENSIONS) else None
    return _Remembered(values, notes)


def _evidence(item: Item | None, option: str, share: float) -> list[tuple[int, float]]:
    """The value of each dimension that an example speaks of: `_scores` solved for it, with one against the rest."""
    if item is None:
        return []
    share = min(max(share, 0.005), 0.995)
    chosen, k = item.options.index(option), len(item.options)
    log_odds = float(np.log(share / (1 - share)) + np.log(k - 1))
    offset = item_offset(item.id) * (1 if chosen == 0 else -1 / (k - 1))
    evidence = []
    for dimension in np.flatnonzero(item.loadings.any(axis=0)):
        loading = item.loadings[chosen, dimension]
        if k > 2 and loading < 1:
            continue  # what is not chosen among several says little of each
        evidence.append((int(dimension), (log_odds - offset) * (1 if loading == 1 else -1) * 2 * (k - 1) / k))
    return evidence


@lru_cache(maxsize=4096)
def _asked(request: str, used: object) -> tuple[Item, list[int]]:
    """The item of a request, and the numbers of its options in the order in which they are shown."""
    shown = [option for _, option in SHOWN.findall(request)]
    item = _index(used or "bundled")[1].get(frozenset(shown))
    if item is None:
        raise BadInput(
            f"A simulated agent knows no item with the options {shown}; use a language model for other items"
        )
    return item, [item.options.index(option) for option in shown]


@lru_cache(maxsize=8)
def _index(used: object) -> tuple[dict[tuple[str, str], Item], dict[frozenset[str], Item]]:
    items = questionnaire().items if isinstance(used, str) else used.items  # type: ignore[attr-defined]
    by_option = {(item.context, option): item for item in items for option in item.options}
    return by_option, {frozenset(item.options): item for item in items}
