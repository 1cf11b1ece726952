"""What tokens cost: prices of models, and dollars of an eval."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from truthgym.datasets.errors import BadInput

if TYPE_CHECKING:
    from inspect_ai.model import ModelCost

    from truthgym.evallog.header import Usage


def prices_in(path: str) -> dict[str, "ModelCost"]:
    """The prices of models by name, in Inspect's format."""
    import yaml
    from inspect_ai.model import ModelCost

    if not path:
        return {}
    form = "MODEL: {input, output, input_cache_write, input_cache_read}, in dollars for a million tokens"
    try:
        named = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        return {str(name): ModelCost.model_validate(price) for name, price in named.items()}
    except (OSError, ValueError, AttributeError, yaml.YAMLError, RecursionError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(f"{path} does not hold prices ({reason}); give a YAML or JSON file of {form}") from None


def money_of(usage: Mapping[str, "Usage"], prices: Mapping[str, "ModelCost"]) -> float:
    """Dollars of an eval: as the log has it, or by the prices. NaN if a model has neither."""
    total = 0.0
    for model, used in usage.items():
        cached = (used.input_tokens_cache_write or 0, used.input_tokens_cache_read or 0)
        price = price_of(prices.get(model), used.input_tokens, used.output_tokens, *cached)
        total += price if used.total_cost is None else used.total_cost
    return total


def price_of(
    price: "ModelCost | None", read: float, written: float, cache_write: float = 0, cache_read: float = 0
) -> float:
    """Dollars of so many tokens. NaN without a price."""
    from inspect_ai.model import ModelUsage, compute_model_cost

    if price is None:
        return math.nan
    usage = ModelUsage(
        input_tokens=round(read), output_tokens=round(written), input_tokens_cache_write=round(cache_write),
        input_tokens_cache_read=round(cache_read),
    )  # fmt: skip
    return compute_model_cost(price, usage)
