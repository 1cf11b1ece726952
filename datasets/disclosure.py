"""Disclosure: what do results say that somebody chose to show? Generated questions about the rule of the choice.

A seller, a lawyer, a laboratory or a grower makes trials and shows some results, by a rule that is stated, or by one of
four whose frequencies are stated. Taking what is shown for a random sample is an error. From the text a reader can
compute what the metadata has: the exact posterior after every piece of evidence.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.generated import (
    GeneratedQuestion,
    generate,
    logit,
    names,
    percent_range,
    probability,
    world_sample,
)
from truthgym.datasets.loading.selection import Questions

HITS, FALSE_ALARMS = (55, 80), (20, 45)
"""Ranges of percents from which each question draws its rates."""
RULES = ("all", "first", "best", "stop")
KINDS = ("first", "second", "third", "fourth")


@dataclass(frozen=True)
class Surface:
    """One wording of the problem. `{case}` numbers the question, `{k}` the result."""

    name: str
    asked: str
    """It lists the four rules in an order of its own, each after its frequency: `{all}`, `{first}`, `{best}`, `{stop}`.
    """
    unknown: str
    known: str
    """Takes the place of `{known}` in `asked`, as `unknown` does. `{kind}` is a rule's place in the list."""
    proposition: str
    good: str
    bad: str
    end: str
    """The last piece of evidence."""

    def kind(self, rule: str) -> str:
        """A rule's place in the list, in words."""
        order = sorted(RULES, key=lambda name: self.asked.index(f"{{{name}}}"))
        return KINDS[order.index(rule)]


SURFACES = (
    Surface(
        "seller",
        "Is batch {case} of the {name} kettle works sound? Of such batches {base} in 100 are. A kettle of a sound "
        "batch passes a drop test {hit} times in 100, a kettle of a faulty batch {alarm} times in 100, each "
        "independently of the others, given whether the batch is sound. Sellers are of four kinds, whatever the "
        "batch. {all} in 100 have {trials} kettles tested and show every result, in order. {first} in 100 have "
        "{trials} tested and show the results of the first {shown}, in order. {best} in 100 have {trials} tested and "
        "pick {shown} results, passes as far as there are any, then failures; they show the passes first. {stop} in "
        "100 have one kettle after another tested, stop as soon as the passes are {ahead} ahead of the failures, or "
        "else after {trials}, and show every result, in order. {known}. The seller shows results one at a time. Only "
        "after the last, and as a separate message, does the seller say that there are no more; until then nothing is "
        "said of whether another follows. Is batch {case} sound?",
        "You cannot tell of which kind the seller of batch {case} is",
        "The seller of batch {case} is known to be of the {kind} kind",
        "Batch {case} of the {name} kettle works is sound.",
        "Batch {case}, result {k}: passed.",
        "Batch {case}, result {k}: failed.",
        "Batch {case}: the seller has no more results to show.",
    ),
    Surface(
        "lawyer",
        "Suit {case}: did the tenant of {name} House leave the tap open? Before any opinion, {base} of 100 such "
        "tenants did. Asked about a tenant who did, an expert says so with a chance of {hit}%; about one who did not, "
        "with a chance of {alarm}%; given what the tenant did, experts judge independently of one another. The "
        "plaintiff's lawyer asks experts and reads opinions to the court one by one. Whatever happened, lawyers have "
        "one of four habits. {best}% ask {trials} experts, choose {shown} opinions, those against the tenant before "
        "any other, and read them in that order. {all}% ask {trials} experts and read all opinions in the order in "
        "which they came. {stop}% ask one expert at a time, stop when opinions against the tenant outnumber the others "
        "by {ahead}, and in any case after {trials}, and read all in the order in which they came. {first}% ask "
        "{trials} experts and read the {shown} opinions that came first, in their order. {known}. Only after the last "
        "opinion, and separately from it, does the lawyer rest; until then the court does not hear whether another "
        "follows. Did the tenant leave the tap open?",
        "Nothing is known of the habit of the lawyer in suit {case}",
        "The lawyer in suit {case} has the {kind} of these habits, as the court knows",
        "In suit {case}, the tenant of {name} House left the tap open.",
        "Suit {case}, opinion {k}: the tenant left it open.",
        "Suit {case}, opinion {k}: the tenant did not leave it open.",
        "Suit {case}: the lawyer rests.",
    ),
    Surface(
        "laboratory",
        "Does additive {case} slow rust in {name} steel? {base} percent of the additives in its family do. A trial of "
        "an additive that does shows an effect {hit} percent of the time, a trial of one that does not {alarm} percent "
        "of the time, and given whether the additive does, trials are independent of one another. Laboratories publish "
        "trials one after another. Only after the last, in a notice of its own, do they announce that it was the last; "
        "until then they do not say whether another follows. Their policies do not depend on the additive: {first} "
        "percent make {trials} trials and publish the {shown} that were made first, in order; {stop} percent make "
        "trials until those with an effect are {ahead} more than those without, but never more than {trials}, and "
        "publish all in order; {all} percent make {trials} trials and publish all in order; {best} percent make "
        "{trials} trials and publish {shown}, first those with an effect, and those without only where the others do "
        "not suffice. {known}. Does additive {case} slow rust?",
        "Which policy the laboratory of additive {case} has is not known",
        "The laboratory of additive {case} has the {kind} policy in this list",
        "Additive {case} slows rust in {name} steel.",
        "Additive {case}, published trial {k}: an effect.",
        "Additive {case}, published trial {k}: no effect.",
        "Additive {case}: that was the last published trial.",
    ),
    Surface(
        "grower",
        "Did the late frost spare orchard {case} near {name}? It spared {base} of 100 orchards there. A bud cut in a "
        "spared orchard is green in {hit} cases of 100, in any other in {alarm} cases of 100, and given what the frost "
        "did, each bud independently of the others. A grower hands buds to the insurer one by one out of a shut bag. "
        "Only after the last, as a step of its own, is the bag shown to be empty; until then the insurer cannot see "
        "whether another bud follows. There are four sorts of growers, equally common among orchards that frost spared "
        "and others: of 100, {stop} cut bud after bud until there are {ahead} more green ones than brown ones or "
        "{trials} are cut, and hand over all as they were cut; {best} cut {trials} and hand over {shown}, green ones "
        "as long as there are any and only then brown ones; {first} cut {trials} and hand over the first {shown} as "
        "they were cut; {all} cut {trials} and hand over all as they were cut. {known}. Was orchard {case} spared?",
        "The insurer has no idea of which sort the grower of orchard {case} is",
        "The insurer knows that the grower of orchard {case} is of the {kind} sort",
        "The late frost spared orchard {case} near {name}.",
        "Orchard {case}, bud {k} is green.",
        "Orchard {case}, bud {k} is brown.",
        "Orchard {case}: the bag is empty.",
    ),
)


class DisclosureQuestion(GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    hit: int
    """Good results in 100 if the proposition is true."""
    false_alarm: int
    """The same if it is false."""
    weights: list[int]
    """Frequencies in 100 of the rules, in the order of `RULES`."""
    rule: str
    """The rule by which the results were chosen."""
    known: bool
    """Whether the text states it."""
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

    Question i depends only on the seed, i and the difficulty: a longer set begins with the shorter one. A question has
    one piece of evidence for each result, and a last one that there are no more.

    Args:
        n: Number of questions, all of the split.
        seed: Another seed gives other questions.
        split: "train", "validation", "test" or "all". Every question is its own event, but for pairs.
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

    Raises:
        BadInput: An argument outside its range, or an unknown split.
    """
    if shown >= trials:
        raise BadInput(f"disclosure: shown={shown} is not fewer than trials={trials}; lower it, or raise trials")
    low, high = percent_range("disclosure", base_rate)
    share = round(100 * known)
    difficulty = f"trials{trials}-shown{shown}-ahead{ahead}-known{share}-base{low}-{high}{'-pairs' * pairs}"

    def make(i: int) -> Sample:
        return _question(seed, i, (trials, shown, ahead), share, (low, high), pairs, difficulty)

    return generate("disclosure", make, n, split)


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
    return [probability(logit(setting.base) + math.fsum(ratios[:k])) for k in range(len(ratios) + 1)]


def show(rule: str, results: Sequence[bool], shown: int, ahead: int) -> list[bool]:
    """The results that a sender shows of those of all trials that could be made."""
    if rule == "first":
        return list(results[:shown])
    if rule == "best":
        return sorted(results, reverse=True)[:shown]
    leads = [2 * sum(results[:k]) - k for k in range(len(results) + 1)]
    return list(results[: leads.index(ahead)] if rule == "stop" and ahead in leads else results)


def _question(
    seed: int, i: int, counts: tuple[int, int, int], share: int, base: tuple[int, int], pairs: bool, difficulty: str
) -> Sample:
    number = i // 2 if pairs else i
    event = f"disclosure-{number:05d}-seed{seed}-{difficulty}"
    rng = random.Random(f"disclosure/{seed}/{number}/{difficulty}")
    trials, shown, ahead = counts
    surface = rng.choice(SURFACES)
    [name] = names(rng, 1)
    base_rate, hit, alarm = (rng.randint(*ends) for ends in (base, HITS, FALSE_ALARMS))
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
    setting = Setting(base_rate / 100, hit / 100, alarm / 100, *counts, stated)
    exact = posterior_path(setting, exhibits, True)
    if pairs:  # the results were not drawn by this rule, so the outcome is
        truth = random.Random(f"disclosure/{seed}/{i}/{difficulty}/outcome").random() < exact[-1]
    identity = f"{event}-{'ab'[i % 2]}" if pairs else event
    evidence = [
        (surface.good if good else surface.bad).format(case=case, k=k) for k, good in enumerate(exhibits, start=1)
    ]
    asked = surface.asked.format(
        case=case, name=name, base=base_rate, hit=hit, alarm=alarm, trials=trials, shown=shown, ahead=ahead,
        known=_known(surface, str(case), rule if known else None), **dict(zip(RULES, weights, strict=True)),
    )  # fmt: skip
    return world_sample(
        DisclosureQuestion, identity, asked, truth,
        event=event, proposition=surface.proposition.format(case=case, name=name),
        evidence=[*evidence, surface.end.format(case=case)], base_rate=base_rate / 100, posterior=exact,
        surface=surface.name, naive=naive_path(setting, exhibits, True), hit=hit, false_alarm=alarm, weights=weights,
        rule=rule, known=known, exhibits=exhibits, contrast=pairs,
    )  # fmt: skip


def _known(surface: Surface, case: str, rule: str | None) -> str:
    return (
        surface.unknown.format(case=case) if rule is None else surface.known.format(case=case, kind=surface.kind(rule))
    )
