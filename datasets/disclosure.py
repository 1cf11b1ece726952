"""Disclosure: what do results say that somebody chose to show? Generated questions about the rule of the choice."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading import generated
from truthgym.datasets.loading.selection import Questions

HITS, FALSE_ALARMS = (55, 80), (20, 45)
"""Ranges of percents from which each question draws its rates."""
RULES = ("all", "first", "best", "stop")
KINDS = ("first", "second", "third", "fourth")


class Surface(generated.Wording):
    """One wording. Its `asked` lists the four rules in an order of its own, each after its frequency: `{all}`, ..."""

    def kind(self, rule: str) -> str:
        """The place of a rule in the wording's list, in words."""
        listed = sorted(RULES, key=lambda name: str(self.asked).index(f"{{{name}}}"))
        return KINDS[listed.index(rule)]


SURFACES = generated.wordings("disclosure", Surface)


class DisclosureQuestion(generated.GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    hit: int
    """Good results in 100 if the proposition is true."""
    false_alarm: int
    """The same if it is false."""
    weights: list[int]
    """Frequencies in 100 of the rules, in the order of `RULES`."""
    rule: str
    known: bool
    """Whether the text states the rule."""
    exhibits: list[bool]
    """The results that are shown: whether each is good."""
    contrast: bool = False
    """Whether it is one of two questions with the same results and another rule. Its results were not drawn by its own
    rule, so beliefs before them are not right on average: `martingale` leaves it out."""


@dataclass(frozen=True)
class Setting:
    """What the text of a question states."""

    base: float
    """Probabilities in (0, 1), as are `hit` and `false_alarm`."""
    hit: float
    false_alarm: float
    trials: int
    shown: int
    ahead: int
    weights: tuple[float, ...]
    """Probabilities of the rules, in the order of `RULES`; 1 and 0 where the rule is known."""


@validate_call
def disclosure(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    trials: Annotated[int, Field(ge=2, le=12)] = 10,
    shown: Annotated[int, Field(ge=1, le=11)] = 3,
    ahead: Annotated[int, Field(ge=1, le=12)] = 2,
    known: Annotated[float, Field(ge=0, le=1)] = 0.5,
    base_rate: Annotated[float | Sequence[float], SkipValidation] = (0.15, 0.85),
    pairs: bool = False,
) -> Questions:
    """Generate questions about results that somebody chose to show.

    A question has one piece of evidence for each result, and a last one that there are no more.

    Args:
        trials: Most trials that are made, 2 to 12.
        shown: Results shown by who shows the first or the best ones, 1 to 11 and fewer than `trials`. The fewer, the
            more a naive reader is misled.
        ahead: By how many good results who stops when ahead is then ahead, 1 to 12.
        known: Probability that the question states the rule, 0 to 1, rounded to a whole percent.
        base_rate: Probability that the proposition is true before any evidence: one number, or the two ends of a range
            from which each question draws. Between 0.01 and 0.99, rounded to a whole percent.
        pairs: Whether questions come in pairs with the same results, chosen as the best in one and the first in the
            other, as the text states. Their results are drawn by the rule "best", the outcome of each from its own
            posterior. A pair is one event. `martingale` leaves pairs out.
    """
    if shown >= trials:
        raise BadInput(f"disclosure: shown={shown} is not fewer than trials={trials}; lower it, or raise trials")
    low, high = generated.percent_range("disclosure", base_rate)
    share = round(100 * known)
    difficulty = f"trials{trials}-shown{shown}-ahead{ahead}-known{share}-base{low}-{high}{'-pairs' * pairs}"

    def make(i: int) -> Sample:
        number = i // 2 if pairs else i
        rng, event = generated.seeded("disclosure", seed, number, difficulty)
        surface = rng.choice(SURFACES)
        [name] = generated.names(rng, 1)
        base_rate, hit, alarm = (rng.randint(*ends) for ends in ((low, high), HITS, FALSE_ALARMS))
        cuts = [0, *sorted(rng.sample(range(1, 20), 3)), 20]
        weights = [5 * (b - a) for a, b in pairwise(cuts)]
        best, most = RULES.index("best"), weights.index(max(weights))
        weights[best], weights[most] = weights[most], weights[best]
        truth = rng.random() < base_rate / 100
        [rule] = ["best"] if pairs else rng.choices(RULES, weights)
        known = pairs or rng.random() < share / 100
        exhibits = show(rule, [rng.random() < (hit if truth else alarm) / 100 for _ in range(trials)], shown, ahead)
        if pairs and (i % 2 == 1) == (rng.random() < 0.5):
            rule = "first"
        case = 1000 + i
        stated = tuple(float(name == rule) if known else w / 100 for name, w in zip(RULES, weights, strict=True))
        setting = Setting(base_rate / 100, hit / 100, alarm / 100, trials, shown, ahead, stated)
        exact = posterior_path(setting, exhibits, True)
        if pairs:  # the results were not drawn by this rule, so the outcome is
            truth = random.Random(f"disclosure/{seed}/{i}/{difficulty}/outcome").random() < exact[-1]
        identity = f"{event}-{'ab'[i % 2]}" if pairs else event
        evidence = generated.numbered((surface.good if good else surface.bad for good in exhibits), case=case)
        stated_rule = (surface.known if known else surface.unknown).format(case=case, kind=surface.kind(rule))
        asked = surface.asked.format(
            case=case, name=name, base=base_rate, hit=hit, alarm=alarm, trials=trials, shown=shown, ahead=ahead,
            known=stated_rule, **dict(zip(RULES, weights, strict=True)),
        )  # fmt: skip
        return generated.world_sample(
            DisclosureQuestion, identity, asked, truth,
            event=event, proposition=surface.proposition.format(case=case, name=name),
            evidence=[*evidence, surface.end.format(case=case)], base_rate=base_rate / 100, posterior=exact,
            naive=naive_path(setting, exhibits, True), surface=surface.name, hit=hit, false_alarm=alarm,
            weights=weights, rule=rule, known=known, exhibits=exhibits, contrast=pairs,
        )  # fmt: skip

    return generated.generate("disclosure", make, n, split)


def likelihood(setting: Setting, rule: str, exhibits: tuple[bool, ...], ended: bool, rate: float) -> float:
    r"""Probability that these results are the first to be shown, and the only ones if the sender `ended`.

    With k results, a of them good, and a probability r of a good one: $r^a(1-r)^{k-a}$ where all, the first or those up
    to the stop are shown, if the rule permits this number of results. Where the best m of n are shown,
    $P(A\ge a)$ if all k are good and $P(A=a)$ if good ones precede bad ones, for a binomial A of n trials.
    """
    k, good = len(exhibits), sum(exhibits)
    most = setting.shown if rule in ("first", "best") else setting.trials
    if rule == "best":
        if k > most or (ended and k != most) or list(exhibits) != sorted(exhibits, reverse=True):
            return 0.0
        counts = range(good, setting.trials + 1) if good == k else (good,)
        return math.fsum(math.comb(setting.trials, a) * rate**a * (1 - rate) ** (setting.trials - a) for a in counts)
    if rule == "stop":
        leads = [2 * sum(exhibits[:j]) - j for j in range(k + 1)]
        if setting.ahead in leads[:-1]:
            return 0.0
        ends = k == most or leads[-1] == setting.ahead
    else:
        ends = k == most
    return rate**good * (1 - rate) ** (k - good) if k <= most and (ends or not ended) else 0.0


def exact_posterior(setting: Setting, exhibits: tuple[bool, ...], ended: bool) -> float:
    r"""Probability of the proposition: Bayes' rule, with the sum over rules of prior times `likelihood`.

    NaN if no rule permits these results.
    """
    yes, no = (
        math.fsum(w * likelihood(setting, rule, exhibits, ended, rate)
                  for rule, w in zip(RULES, setting.weights, strict=True) if w)
        for rate in (setting.hit, setting.false_alarm)
    )  # fmt: skip
    total = setting.base * yes + (1 - setting.base) * no
    return setting.base * yes / total if total else math.nan


def posterior_path(setting: Setting, exhibits: Sequence[bool], ended: bool) -> list[float]:
    """The exact posterior before any result, after each, and after the last piece if the sender `ended`."""
    path = [exact_posterior(setting, tuple(exhibits[:k]), False) for k in range(len(exhibits) + 1)]
    return path + [exact_posterior(setting, tuple(exhibits), True)] * ended


def naive_path(setting: Setting, exhibits: Sequence[bool], ended: bool) -> list[float]:
    r"""The same for a reader who takes results for a random sample: $\ln P(e\mid 1)/P(e\mid 0)$ of each adds up."""
    good = math.log(setting.hit / setting.false_alarm)
    bad = math.log((1 - setting.hit) / (1 - setting.false_alarm))
    ratios = [good if exhibit else bad for exhibit in exhibits] + [0.0] * ended
    return [
        generated.probability(generated.logit(setting.base) + math.fsum(ratios[:k])) for k in range(len(ratios) + 1)
    ]


def show(rule: str, results: Sequence[bool], shown: int, ahead: int) -> list[bool]:
    """The results that a sender shows of those of all trials that could be made."""
    if rule == "first":
        return list(results[:shown])
    if rule == "best":
        return sorted(results, reverse=True)[:shown]
    leads = [2 * sum(results[:k]) - k for k in range(len(results) + 1)]
    return list(results[: leads.index(ahead)] if rule == "stop" and ahead in leads else results)
