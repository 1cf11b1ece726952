"""What a fine-tuning job will cost, as far as that can be told before it runs."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from truthgym.evallog.errors import bad_input

PRICES_OF = "April 2026"
"""When the prices below were last seen. Prices change: --price is taken before them."""
PRICES: dict[str, float] = {
    "gpt-4.1-2025-04-14": 25.0,
    "gpt-4.1-mini-2025-04-14": 5.0,
    "gpt-4o-2024-08-06": 25.0,
    "gpt-4o-mini-2024-07-18": 3.0,
}
"""Dollars for a million trained tokens at OpenAI, supervised and by preference. As they were told elsewhere: they have
not been held against OpenAI's own page of prices."""
HOURLY: dict[str, float] = {"o4-mini-2025-04-16": 100.0}
"""Dollars for an hour of reinforcement fine-tuning at OpenAI, without what a model that grades costs."""
BYTES_A_TOKEN = 4.0
MESSAGE_TOKENS = 4
"""What a message costs besides its text."""


@dataclass(frozen=True)
class Quote:
    """An estimate of what a job costs."""

    text: str
    """For the person who confirms it."""
    tokens: int
    """Trained tokens, over all epochs."""
    dollars: float | None
    """None where the price goes by the hour."""


def count_tokens(lines: Iterable[Mapping[str, Any]]) -> int:
    """Estimate the tokens of a file: bytes of UTF-8 / 4, and 4 for every message. No tokenizer is downloaded for it.

    English text has a token for about every 4.5 bytes and other scripts for about every 3: expect it right to a third.
    """
    total = 0.0
    for line in lines:
        inputs = line if "messages" in line else line["input"]  # an item of reinforcement may have an `input` as well
        messages = [
            *inputs.get("messages", []),
            *line.get("preferred_output", []),
            *line.get("non_preferred_output", []),
        ]
        for message in messages:
            parts = message.get("content") or ""
            texts = [parts] if isinstance(parts, str) else [part.get("text", "") for part in parts]
            texts += [json.dumps(message["tool_calls"])] if "tool_calls" in message else []
            total += MESSAGE_TOKENS + sum(len(text.encode("utf-8", "replace")) for text in texts) / BYTES_A_TOKEN
        if inputs.get("tools"):
            total += len(json.dumps(inputs["tools"])) / BYTES_A_TOKEN
    return round(total)


def quote(method: str, model: str, tokens: int, epochs: int, price: float | None = None) -> Quote:
    """Estimate what a job at a vendor costs.

    Args:
        method: "sft", "dpo" or "reinforcement".
        model: The model to be trained, or one that was fine-tuned from it before (`ft:MODEL:...`).
        tokens: Of one epoch, see `count_tokens`.
        epochs: How many there will be.
        price: Dollars for a million trained tokens; for reinforcement, for an hour. None is that of the table.

    Raises:
        BadInput: No price is known.
    """
    base = model.split(":")[1] if model.startswith("ft:") else model
    known = _of(HOURLY if method == "reinforcement" else PRICES, base)
    said = price if price is not None else known
    if said is None:
        unit = "an hour of training" if method == "reinforcement" else "a million trained tokens"
        raise bad_input(
            f"No price is known here for {method} of {model}; look it up at the vendor and say it in dollars for "
            f"{unit}: --price 5"
        )
    by = "--price" if price is not None else f"as of {PRICES_OF}, not checked since"
    if method == "reinforcement":
        text = (
            f"Reinforcement is billed by the hour: ${said:,.2f} for each ({by}), and what a grading model uses. How "
            "long it takes is not known beforehand."
        )
        return Quote(text, tokens * epochs, None)
    dollars = tokens * epochs * said / 1e6
    told = f"About {tokens:,} tokens (bytes / {BYTES_A_TOKEN:g}) x {epochs} epochs at ${said:,.2f} a million ({by})"
    return Quote(f"{told}: {_dollars(dollars)}.", tokens * epochs, dollars)


def _dollars(dollars: float) -> str:
    return f"about ${dollars:,.2f}" if dollars >= 0.01 else "less than a cent"


def _of(table: Mapping[str, float], model: str) -> float | None:
    """The price of a model by its dated name, or by the name without a date."""
    undated = {re.sub(r"-\d{4}-\d{2}-\d{2}$", "", name): price for name, price in table.items()}
    return table.get(model, undated.get(model))
