"""`reference/proposer`: a simulated writer of rubrics, which names the planted sentences that two answers differ in."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from truthgym.models.agents.agent import Conversation, Reply, SimulatedAgent
from truthgym.models.agents.policies import generator
from truthgym.models.agents.quality_markers import LENGTH, MARKERS, TOPICS

NAME = "proposer"
PARAMETERS = frozenset({"seed"})
VAGUE = ("Is clear and well put.", f"Answers {LENGTH}.", "Sounds sure of what it says.", "Is pleasant to read.")
PART = r"<{tag}>\n(.*?)\n</{tag}>"
LINE = re.compile(r"^- (.*) \((\S+)\)$", re.MULTILINE)
MOST = 12
Criteria = list[dict[str, object]]
MODES = {
    "raise the bar": "raise",
    "提高要求": "raise",
    "split one criterion": "split",
    "拆成每件事一条": "split",
    "replace what is vague": "replace",
    "改成能在文中核对": "replace",
    "remove what length": "remove",
    "删去只靠篇幅": "remove",
}
"""What it does, by words of the request; in any other case it adds a criterion."""


@dataclass(frozen=True)
class Proposer(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        return write_rubric(talk.request, self.parameters.seed, talk.draw)


def write_rubric(request: str, seed: int, draw: int) -> str:
    rng = generator(NAME, seed, draw, request)
    better, worse = (_part(request, tag) for tag in ("better", "worse"))
    if better is None or worse is None:
        topics = [str(rng.choice(TOPICS))] if rng.random() < 0.5 else []
        criteria = [_topic(topic) for topic in topics]
        criteria += [{"text": text, "weight": 1} for text in rng.choice(VAGUE, size=3 - len(topics), replace=False)]
        return _form(criteria)
    lines = LINE.findall(_part(request, "rubric") or "")
    criteria = [{"text": text, "weight": float(weight)} for text, weight in lines]
    only_better = [t for t, marker in zip(TOPICS, MARKERS, strict=True) if marker in better and marker not in worse]
    only_worse = [t for t, marker in zip(TOPICS, MARKERS, strict=True) if marker in worse and marker not in better]
    new = [topic for topic in only_better if not any(topic in str(criterion["text"]).lower() for criterion in criteria)]
    mode = next((what for words, what in MODES.items() if words in request.lower()), "add")
    return _form(REVISIONS[mode](criteria, [str(topic) for topic in rng.permutation(new)], only_worse, rng))


def _add(criteria: Criteria, new: list[str], worse: list[str], rng: np.random.Generator) -> Criteria:
    return criteria + [_topic(topic) for topic in new[:1]]


def _raise(criteria: Criteria, new: list[str], worse: list[str], rng: np.random.Generator) -> Criteria:
    return criteria + ([{"text": f"Names {' and '.join(new[:2])}.", "weight": 2}] if new else [])


def _split(criteria: Criteria, new: list[str], worse: list[str], rng: np.random.Generator) -> Criteria:
    for i, criterion in enumerate(criteria):
        named = [topic for topic in TOPICS if topic in str(criterion["text"]).lower()]
        if len(named) > 1:
            return criteria[:i] + [_topic(topic) for topic in named] + criteria[i + 1 :]
    return _add(criteria, new, worse, rng)


def _replace(criteria: Criteria, new: list[str], worse: list[str], rng: np.random.Generator) -> Criteria:
    vague = [i for i, criterion in enumerate(criteria) if criterion["text"] in VAGUE]
    kept = [criterion for i, criterion in enumerate(criteria) if not vague or i != vague[int(rng.integers(len(vague)))]]
    return _add(kept or criteria, new, worse, rng)


def _remove(criteria: Criteria, new: list[str], worse: list[str], rng: np.random.Generator) -> Criteria:
    def misleads(criterion: dict[str, object]) -> bool:
        return criterion["text"] in VAGUE or any(topic in str(criterion["text"]).lower() for topic in worse)

    places = [i for i, criterion in enumerate(criteria) if misleads(criterion)]
    if not places or len(criteria) == 1:
        return _add(criteria, new, worse, rng)
    misleading = places[int(rng.integers(len(places)))]
    return [criterion for i, criterion in enumerate(criteria) if i != misleading]


REVISIONS: dict[str, Callable[[Criteria, list[str], list[str], np.random.Generator], Criteria]] = {
    "add": _add,
    "raise": _raise,
    "split": _split,
    "replace": _replace,
    "remove": _remove,
}


def _topic(topic: str) -> dict[str, object]:
    return {"text": f"Names {topic}.", "weight": 1}


def _form(criteria: Criteria) -> str:
    return json.dumps({"reasons": "I am a simulated proposer, not a language model.", "criteria": criteria[:MOST]})


def _part(request: str, tag: str) -> str | None:
    match = re.search(PART.format(tag=tag), request, re.DOTALL)
    return match[1] if match else None
