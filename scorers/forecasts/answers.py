"""Uplifts of many answers, as columns with a row for each question."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from inspect_ai.scorer import SampleScore
from numpy.typing import NDArray

from truthgym.scorers.forecasts.templates import PLACEBOS
from truthgym.scorers.statistics.interval import Estimate, mean_estimate, ratio_estimate
from truthgym.scorers.statistics.proper_scores import row_mean
from truthgym.scorers.statistics.table import tabulate

Per = Literal["observation", "token", "1000_tokens"]
KEYS = (
    "world_uplift", "uplift", "placebo_uplift", *(f"placebo_{kind}" for kind in PLACEBOS),
    "observation_tokens", "tokens", "copied",
)  # fmt: skip
"""The keys of a sample's value. Those of budgets follow: `uplift_at_B`."""
COPIED = 0.5
"""An answer with a larger share of the observation's runs of four words counts as copied."""
COPIED_WORDS = 4
"""Words in a row that count as copied."""
WORD = re.compile(r"\w+")
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Answers:
    """The answers of one model, or the means of several."""

    question: Sequence[str]
    cluster: Sequence[str]
    columns: Mapping[str, Floats]
    """Means over epochs, by name: "net", the smallest of the net uplifts; one for each placebo, net of it;
    "not_copied"; "uplift", "placebo", and the budgets' keys, all in nats per observation. Of those that are net also
    "NAME per token" and "NAME tokens", the length of the answers that have a value."""

    def mean(self, column: str, per: Per = "observation") -> Estimate:
        """The mean of a column over the questions, clustered by event."""
        if per == "1000_tokens":
            return ratio_estimate(1000 * self.columns[column], self.columns[f"{column} tokens"], self.cluster)
        return mean_estimate(self.columns[f"{column} per token" if per == "token" else column], self.cluster)


def answers_of(scores: Sequence[SampleScore], budgets: Sequence[int]) -> dict[str, Answers]:
    """The answers of each model by its name, or with a number where a model has several tasks or solvers."""
    setups: dict[tuple[str, str], list[SampleScore]] = {}
    for item in scores:
        about = item.score.metadata or {}
        question = SampleScore(score=item.score, sample_id=about.get("question") or item.sample_id)
        setups.setdefault((str(about.get("model") or ""), str(about.get("setup") or "")), []).append(question)
    setups = setups or {("", ""): []}
    models = [model for model, _ in setups]
    return {
        f"{model} {setup}" if models.count(model) > 1 else model: _answers(setups[model, setup], budgets)
        for model, setup in sorted(setups)
    }


def _answers(scores: list[SampleScore], budgets: Sequence[int]) -> Answers:
    keys = [*KEYS, *(f"uplift_at_{budget}" for budget in budgets)]
    tables = {key: tabulate(scores, key, most=np.inf, least=-np.inf) for key in keys}
    values = {key: table.values for key, table in tables.items()}
    net: dict[str, NDArray[np.float64]] = {kind: values["uplift"] - values[f"placebo_{kind}"] for kind in PLACEBOS}
    net["net"] = np.min(list(net.values()), axis=0)
    net["not_copied"] = np.where(values["copied"] > COPIED, np.nan, net["net"])
    columns = net | {"uplift": values["uplift"], "placebo": values["uplift"] - net["net"]}
    columns |= {key: values[key] for key in keys[len(KEYS) :]}
    columns |= {f"{name} per token": column / values["observation_tokens"] for name, column in net.items()}
    columns |= {f"{name} tokens": np.where(np.isnan(net[name]), np.nan, values["tokens"]) for name in net}
    table = tables["uplift"]
    return Answers(table.question, table.cluster, {name: row_mean(column) for name, column in columns.items()})


def mean_of_models(models: Sequence[Answers]) -> Answers:
    """The mean over models of the questions that each of them answered."""
    rows = [dict(zip(model.question, range(len(model.question)), strict=True)) for model in models]
    first = models[0]
    common = [question for question in first.question if all(question in row for row in rows)]
    places = [[row[question] for question in common] for row in rows]
    columns = {
        name: np.mean([one.columns[name][place] for one, place in zip(models, places, strict=True)], axis=0)
        for name in first.columns
    }
    return Answers(common, [first.cluster[row] for row in places[0]], columns)


def copied_share(text: str, observation: str, context: str) -> float:
    """Share of an observation's runs of four words that stand in a text and not in the context, which it could know.

    A text with a large share saw the observation, or repeats a phrase that it could not know. Case and punctuation do
    not count.

    Returns:
        In [0, 1]; NaN where the observation has no run of four words that is new.

    >>> copied_share("He says the turnout was 84.6 percent.", "The turnout was 84.6 percent.", "")
    1.0
    """
    new = _runs(observation) - _runs(context)
    return len(new & _runs(text)) / len(new) if new else np.nan


def _runs(text: str) -> set[tuple[str, ...]]:
    words = [word.casefold() for word in WORD.findall(text)]
    return {tuple(words[i : i + COPIED_WORDS]) for i in range(len(words) - COPIED_WORDS + 1)}
