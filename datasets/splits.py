"""The splits of questions. Loads nothing, so that converting logs can check splits without Inspect."""

from typing import Literal

from truthgym.datasets.digests import text_share

Split = Literal["train", "validation", "test"]
SHARES: dict[Split, float] = {"train": 0.6, "validation": 0.2, "test": 0.2}


def split_of(event: str) -> Split:
    """The split of an event, by a hash of its name: reordering or growing a dataset moves no event."""
    position = text_share(event)
    for split, share in SHARES.items():
        if position < share:
            return split
        position -= share
    return "test"
