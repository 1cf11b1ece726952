"""Sentences that careful reasoners write: how much care is planted in an agent, and how much a judge can see.

An agent with `-M care=c` writes each of eight sentences with probability c, where it thinks or answers. A text with k
different ones has the quality 0.1 + 0.8 k/8, so that of one reply has the mean 0.1 + 0.8 c: what `reference/judge`
sees, and what a judge's ratings must recover.
"""

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
"""Distinct, and none a part of another."""
BASE_QUALITY, QUALITY_RANGE = 0.1, 0.8
"""Quality of a text with none of them, and what all of them add."""


def draw_markers(care: float | None, seed: int, name: str, key: str, epoch: int, *stage: object) -> tuple[str, ...]:
    """The sentences that an agent writes in one reply: each with probability `care`, independently.

    Args:
        care: From 0 to 1; None writes none.
        seed: The agent's seed.
        name: The agent.
        key: The question.
        epoch: The epoch.
        stage: The place in the reasoning. Another stage has another draw.
    """
    if not care:
        return ()
    drawn = generator("care", seed, name, key, epoch, *stage).random(len(MARKERS))
    return tuple(words for words, place in zip(MARKERS, drawn, strict=True) if place < care)


def count_markers(text: str) -> int:
    """How many different ones of the eight sentences stand in a text, from 0 to 8."""
    return sum(words in text for words in MARKERS)


def quality(text: str) -> float:
    """Quality of a text as it is planted: 0.1 + 0.8 k/8, in [0.1, 0.9]. Higher is better.

    >>> quality("I hold this loosely, for a small piece of news would move me. So it is.")
    0.2
    """
    return round(BASE_QUALITY + QUALITY_RANGE * count_markers(text) / len(MARKERS), 4)


def mean_quality(care: float, replies: int = 1) -> float:
    """Expected quality of a trajectory of so many replies by an agent with this care.

    Each sentence stands in the trajectory if any of the replies draws it.

    >>> mean_quality(0.5), mean_quality(0.5, replies=2)
    (0.5, 0.7)
    """
    return float(np.round(BASE_QUALITY + QUALITY_RANGE * (1 - (1 - care) ** replies), 10))
