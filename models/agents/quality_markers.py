"""Marker sentences of careful reasoning: planted in agents' replies, and counted as a text's true quality."""

import numpy as np

from truthgym.models.agents.policies import generator

MARKERS = (
    "My first thought rests on an assumption that I have not tested.",
    "There is another way to read this that I should give a fair hearing.",
    "What would change my mind is a case in which the same signs led elsewhere.",
    "I ask myself what somebody who disagrees would point to first.",
    "I do not know how far the record I go by can be trusted.",
    "It may be that I notice what fits and pass over what does not.",
    "An explanation that nobody has put forward yet could account for all of it.",
    "I hold this loosely, for a small piece of news would move me.",
)
"""Distinct; none is a substring of another."""
TOPICS = (
    "assumption",
    "other reading",
    "change its mind",
    "disagrees",
    "record",
    "passes over",
    "new explanation",
    "loosely",
)
"""Words by which a criterion of a rubric names each sentence, in the same order."""
LENGTH = "at length"
"""The words by which a criterion asks for a long answer."""
LONG = 400
"""Words of an answer that meets it fully."""
BASE_QUALITY, QUALITY_RANGE = 0.1, 0.8
"""Quality of a text with no markers, and the increase with all of them."""


def draw_markers(care: float | None, seed: int, name: str, key: str, epoch: int, *stage: object) -> tuple[str, ...]:
    """The marker sentences of one reply: each is included with probability `care`, independently."""
    if not care:
        return ()
    draws = generator("care", seed, name, key, epoch, *stage).random(len(MARKERS))
    return tuple(sentence for sentence, draw in zip(MARKERS, draws, strict=True) if draw < care)


def count_markers(text: str) -> int:
    """Number of different marker sentences in a text, from 0 to 8."""
    return sum(sentence in text for sentence in MARKERS)


def quality(text: str) -> float:
    """Planted quality of a text with k markers: 0.1 + 0.8 k/8, in [0.1, 0.9]. Higher is better.

    >>> quality("I hold this loosely, for a small piece of news would move me. So it is.")
    0.2
    """
    return round(BASE_QUALITY + QUALITY_RANGE * count_markers(text) / len(MARKERS), 4)


def topic_quality(criterion: str, text: str) -> float | None:
    """How far a text meets a criterion of a rubric, 0 to 1; None if the criterion names nothing that is planted.

    >>> topic_quality("Names an assumption.", f"{MARKERS[0]} So it is."), topic_quality("Is good.", MARKERS[0])
    (1.0, None)
    """
    named = [sentence for topic, sentence in zip(TOPICS, MARKERS, strict=True) if topic in criterion.lower()]
    if named:
        return sum(sentence in text for sentence in named) / len(named)
    return min(len(text.split()) / LONG, 1.0) if LENGTH in criterion.lower() else None


def mean_quality(care: float, replies: int = 1) -> float:
    """Expected quality of a trajectory with `replies` replies by an agent with this care.

    A sentence counts if at least one reply includes it.

    >>> mean_quality(0.5), mean_quality(0.5, replies=2)
    (0.5, 0.7)
    """
    return float(np.round(BASE_QUALITY + QUALITY_RANGE * (1 - (1 - care) ** replies), 10))
