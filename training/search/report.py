"""What a search found: on held-out prompts, beside the arms that every search must beat."""

from dataclasses import dataclass
from typing import Any

from truthgym.scorers.rubrics.rubric import Rubric
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.training.files import markdown_table
from truthgym.training.search.objective import Objective, rounded

ARMS = {
    "search": "what the search found",
    "no_rubric": "the judge's impression, by one criterion that names nothing",
    "prompt_only": "what the initialiser wrote from the prompts",
    "human_rubric": "a rubric that a person wrote",
}


@dataclass(frozen=True)
class Arm:
    """A rubric measured on both parts of the prompts."""

    rubric: Rubric
    searched: Objective
    held_out: Objective

    def row(self, found: "Arm") -> dict[str, Any]:
        """Its figures, and the difference of the search's result to it on the same held-out prompts."""
        gain = mean_estimate(found.held_out.by_prompt - self.held_out.by_prompt)
        return {
            "rubric": self.rubric.model_dump(mode="json"),
            "rubric_digest": self.rubric.digest,
            "searched": _figures(self.searched),
            "held_out": _figures(self.held_out),
            "search_minus_this": _interval(gain) if self is not found else None,
        }


def _figures(found: Objective) -> dict[str, Any]:
    return {
        "objective": _interval(found.total),
        "tail_acc": rounded(found.tail_acc),
        "tail_var": rounded(found.tail_var),
        "diverse_tail_acc": rounded(found.diverse_tail_acc),
        "recall_at_tail": rounded(found.recall),
        "pairs": found.pairs,
        "diverse_pairs": found.diverse_pairs,
        "prompts": len(found.by_prompt),
    }


def _interval(value: Estimate) -> dict[str, float | None]:
    return {"estimate": rounded(value.estimate), "lower": rounded(value.lower), "upper": rounded(value.upper)}


def table(arms: dict[str, dict[str, Any]]) -> str:
    """The arms as Markdown, the search first."""
    rows = [
        (
            name,
            str(len(arm["rubric"]["criteria"])),
            _shown(arm["searched"]["objective"]["estimate"]),
            _bounds(arm["held_out"]["objective"]),
            _shown(arm["held_out"]["tail_acc"]),
            _shown(arm["held_out"]["recall_at_tail"]),
            _bounds(arm["search_minus_this"]) if arm["search_minus_this"] else "",
        )
        for name, arm in arms.items()
    ]
    head = (
        "arm", "criteria", "objective, searched prompts", "objective, held-out prompts", "TailAcc", "recall at tail",
        "search minus this",
    )  # fmt: skip
    return markdown_table(head, rows)


def verdict(arms: dict[str, dict[str, Any]]) -> str:
    """One sentence: which of the arms the search beats on held-out prompts."""
    lower = {name: (arm["search_minus_this"] or {}).get("lower") for name, arm in arms.items()}
    better = [name for name, bound in lower.items() if bound is not None and bound > 0]
    others = [name for name in arms if name != "search" and name not in better]
    said = f"On held-out prompts the search beats {', '.join(better)}." if better else (
        "On held-out prompts the search was not shown to beat any arm."
    )  # fmt: skip
    return said + (f" It was not shown to beat {', '.join(others)}." if better and others else "")


def _shown(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _bounds(value: dict[str, float | None]) -> str:
    if value["lower"] is None:
        return f"{_shown(value['estimate'])} (no interval)"
    return f"{_shown(value['estimate'])} [{_shown(value['lower'])}, {_shown(value['upper'])}]"
