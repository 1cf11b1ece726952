"""Generated worlds: questions whose exact posterior is known after every piece of evidence, and `audio`.

    inspect eval truthgym/urns --model reference/bayesian
    inspect eval truthgym/disclosure -T known=1 -T shown=2 --solver truthgym/chain_of_thought --model ...
    inspect eval truthgym/almanac -T kind=outbreak -T ahead=1 --model reference/naive
    inspect eval truthgym/audio -T control=loudness --model openai/gpt-audio

All tasks here generate `n` questions from `seed`. `split`, `paradigms` and `system_prompt` are those of the tasks in
`domains.py`. docs/domains.md describes all arguments.
"""

from collections.abc import Sequence
from typing import Literal

from inspect_ai import Task

from truthgym.datasets import audio as clips
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.interventions import Kinds
from truthgym.tasks.domain_task import ScorerNames, domain_task, task


@task
def urns(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    draws: int = 4,
    likelihood_ratio: float = 2.0,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two causes produced the observations. Default scorers: brier and martingale.

    `n` questions are generated from `seed`, each with `draws` pieces of evidence. `likelihood_ratio` is how many times
    likelier a mark is under one cause than under the other, `base_rate` the probability of the proposition before
    evidence: a number, or the two ends of a range with a comma. docs/domains.md describes the other arguments.
    """
    questions = DOMAINS["urns"](n, seed, split, draws, likelihood_ratio, base_rate)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="3-A")


@task
def testimony(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    witnesses: int | Sequence[int] = (2, 8),
    reports: int | Sequence[int] = (3, 12),
    named: float = 0.7,
    late: float = 0.7,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether an event happened that few people saw and many reports repeat. Defaults: brier and martingale.

    `n` questions are generated from `seed`. Each of the `reports` repeats one of the `witnesses`. It names the witness
    with the probability `named`; if not, the last piece of evidence does so with the probability `late`. `base_rate` is
    the probability of the proposition before evidence. `witnesses`, `reports` and `base_rate` are one number, or the
    two ends of a range with a comma.
    docs/domains.md describes the other arguments.
    """
    questions = DOMAINS["testimony"](n, seed, split, witnesses, reports, named, late, base_rate)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")


@task
def disclosure(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    trials: int = 10,
    shown: int = 3,
    ahead: int = 2,
    known: float = 0.5,
    base_rate: float | Sequence[float] = (0.15, 0.85),
    pairs: bool = False,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask what results say that somebody chose to show by a rule. Default scorers: brier and martingale.

    `n` questions are generated from `seed`. Of up to `trials` results all are shown, or the first or best `shown`, or
    those until the good ones are `ahead`. With the probability `known` the question states which, otherwise how often
    each is done. With `pairs`, two questions show the same results by another rule, and `martingale` leaves them out.
    docs/domains.md describes the other arguments.
    """
    questions = DOMAINS["disclosure"](n, seed, split, trials, shown, ahead, known, base_rate, pairs)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")


@task
def interventions(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    parts: int = 5,
    readings: int = 3,
    kind: Kinds = "all",
    learned: float = 0.4,
    cases: int = 200,
    paradigms: ScorerNames | None = None,
    system_prompt: str | None = None,
) -> Task:
    """Ask what a device does if a part is set, is seen, or had been set. Default scorers: brier and martingale.

    `n` questions are generated from `seed`. The mechanism of the `parts` is stated and `readings` gauges are read; or,
    with the probability `learned`, diagrams are given and `cases` past runs. `kind` is "set", "see", "counterfactual"
    or "all". docs/domains.md describes the other arguments.
    """
    questions = DOMAINS["interventions"](n, seed, split, parts, readings, kind, learned, cases)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")


@task
def almanac(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    kind: Literal["all", "polls", "reservoir", "league", "outbreak", "price"] = "all",
    history: int = 2,
    news: int = 4,
    ahead: int = 3,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether a small simulated world will pass a threshold on a day. Default scorers: brier and martingale.

    `n` questions are generated from `seed`, each about a world of the given `kind`. The background has `history` weeks
    of news, `news` weeks follow as evidence, and the question resolves `ahead` weeks later. docs/domains.md describes
    the other arguments.
    """
    questions = DOMAINS["almanac"](n, seed, split, kind, history, news, ahead)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")


@task
def cruxes(
    n: int = 300,
    seed: int = 0,
    split: str = "all",
    reasons: int | None = None,
    rounds: int = 4,
    shown: float = 0.5,
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask whether an exchange makes an author give up a view. Default scorers: brier and martingale.

    `n` questions are generated from `seed`. The author has 3 to 5 `reasons` of hidden weight, and the post says what
    one weighs with the probability `shown`. In each of the `rounds` a reader attacks a reason and the author replies.
    docs/domains.md describes the other arguments.
    """
    questions = DOMAINS["cruxes"](n, seed, split, reasons, rounds, shown)
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="2-A")


@task
def audio(
    n: int = 100,
    seed: int = 0,
    split: str = "all",
    gap: float = 0.5,
    control: clips.Control = "none",
    paradigms: ScorerNames | None = None,
    system_prompt: str | Sequence[str] | None = None,
) -> Task:
    """Ask which of two clips has less of a fault. Default scorer: brier. Needs a model that hears.

    `n` pairs of clips are generated from `seed`; `gap` is the difference of the fault, above 0 and at most 1. `control`
    is "none", or one in which an honest listener says 0.5 and scores 0.25: "identical" and "loudness" play the same
    clip twice, in the latter at another loudness, and "removed" plays none.
    """
    questions = clips.audio(n, seed, split, gap, control)
    return domain_task(questions, paradigms, ["brier"], system_prompt, version="2-A")
