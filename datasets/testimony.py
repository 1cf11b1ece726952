"""Testimony: which reports are new evidence? Generated questions about an event that few people saw and many report."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from inspect_ai.dataset import Sample
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading import generated
from truthgym.datasets.loading.selection import Questions

HITS, FALSE_ALARMS, GARBLES = (60, 80), (20, 40), (2, 12)
"""Ranges of percents from which each question draws its rates."""
SURFACES = generated.wordings("testimony", generated.Wording)


class TestimonyQuestion(generated.GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    hit: int
    """Percent of people who say yes if the proposition is true."""
    false_alarm: int
    """The same if it is false."""
    garble: int
    """Percent of reports that say the opposite of what the person said."""
    content: list[bool]
    """Whether each report says that the proposition is true."""
    source: list[int]
    """Number of the person whom each report repeats, from 0."""
    named_at: list[int]
    """For each report the piece of evidence that names its person, from 1; 0 if none does."""


Sources = Sequence[int | None]
"""The number of each report's person, from 0, or None if it is not known."""


@dataclass(frozen=True)
class Rates:
    """Probabilities in (0, 1)."""

    base: float
    hit: float
    false_alarm: float
    garble: float


@validate_call
def testimony(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    witnesses: Annotated[int | Sequence[int], SkipValidation] = (2, 8),
    reports: Annotated[int | Sequence[int], SkipValidation] = (3, 12),
    named: Annotated[float, Field(ge=0, le=1)] = 0.7,
    late: Annotated[float, Field(ge=0, le=1)] = 0.7,
    base_rate: Annotated[float | Sequence[float], SkipValidation] = (0.15, 0.85),
) -> Questions:
    """Generate questions about an event that a few people saw and several reports repeat.

    A question has one piece of evidence for each report, and a last one that names persons whom reports did not name.

    Args:
        witnesses: People who saw the event, 2 to 8: one number, or the two ends of a range from which each question
            draws. The fewer, the more reports repeat one another. In a narrow range a constant weight on all reports
            comes near to the exact reader.
        reports: Reports in each question, 1 to 12, likewise.
        named: Probability that a report names its person, 0 to 1, rounded to a whole percent.
        late: Probability that the last piece names the person of a report that did not, likewise.
        base_rate: Probability that the proposition is true before any evidence: one number, or the two ends of a range
            from which each question draws. Between 0.01 and 0.99, rounded to a whole percent.
    """
    people_ends = generated.whole_range("testimony", "witnesses", witnesses, 2, 8)
    report_ends = generated.whole_range("testimony", "reports", reports, 1, 12)
    low, high = generated.percent_range("testimony", base_rate)
    shares = round(100 * named), round(100 * late)
    difficulty = "witnesses{}-{}-reports{}-{}-named{}-late{}-base{}-{}".format(
        *people_ends, *report_ends, *shares, low, high
    )

    def make(i: int) -> Sample:
        rng, identity = generated.seeded("testimony", seed, i, difficulty)
        surface = rng.choice(SURFACES)
        witnesses, reports = rng.randint(*people_ends), rng.randint(*report_ends)
        place, *people = generated.names(rng, 1 + witnesses)
        base_rate = rng.randint(low, high)
        hit, alarm, garble = (rng.randint(*ends) for ends in (HITS, FALSE_ALARMS, GARBLES))
        truth = rng.random() < base_rate / 100
        statements = [rng.random() < (hit if truth else alarm) / 100 for _ in people]
        source = [rng.randrange(witnesses) for _ in range(reports)]
        content = [statements[person] != (rng.random() < garble / 100) for person in source]
        named_at = [k if rng.random() < shares[0] / 100 else 0 for k in range(1, reports + 1)]
        named_at = [k or (reports + 1 if rng.random() < shares[1] / 100 else 0) for k in named_at]

        rates = Rates(base_rate / 100, hit / 100, alarm / 100, garble / 100)
        at_once = [person if 0 < k <= reports else None for person, k in zip(source, named_at, strict=True)]
        later = [person if k else None for person, k in zip(source, named_at, strict=True)]
        case = 1000 + i
        evidence = []
        for k, (report, person) in enumerate(zip(content, at_once, strict=True), start=1):
            line = (surface.yes if report else surface.no).format(case=case, k=k)
            evidence.append(
                f"{line} {surface.unnamed if person is None else surface.named.format(person=people[person])}"
            )
        traced = [
            surface.one.format(k=k, person=people[source[k - 1]])
            for k, at in enumerate(named_at, start=1)
            if at > reports
        ]
        evidence.append(surface.traces.format(case=case, traced="; ".join(traced) or surface.none))
        proposition = surface.proposition.format(case=case, place=place)
        asked = surface.asked.format(
            case=case, place=place, people=generated.listed(people), base=base_rate, hit=hit,
            alarm=alarm, garble=garble, reports=reports, named=shares[0], late=shares[1],
        )  # fmt: skip
        return generated.world_sample(
            TestimonyQuestion, identity, asked, truth,
            proposition=proposition, evidence=evidence, base_rate=base_rate / 100, surface=surface.name, hit=hit,
            false_alarm=alarm, garble=garble, content=content, source=source, named_at=named_at,
            posterior=posterior_path(rates, witnesses, content, at_once, later),
            naive=naive_path(rates, content, traced=True),
        )  # fmt: skip

    return generated.generate("testimony", make, n, split)


def exact_posterior(rates: Rates, witnesses: int, content: tuple[bool, ...], source: tuple[int | None, ...]) -> float:
    r"""Probability that the event happened, by summation over what the witnesses may have said.

    $$P(e\mid r,s)\propto P(e)\sum_{o\in\{0,1\}^w}\prod_i P(o_i\mid e)\prod_j P(r_j\mid o,s_j)$$

    A report repeats its source's statement, or the opposite with the probability of a garble. If the source is unknown,
    its probability is the mean over the witnesses, which depends only on how many of them say yes. `source` has the
    number of each report's witness, from 0, or None.
    """
    unknown, by_witness = [0, 0], [[1.0, 1.0] for _ in range(witnesses)]
    for report, witness in zip(content, source, strict=True):
        if witness is None:
            unknown[report] += 1
        else:
            by_witness[witness][report] *= 1 - rates.garble
            by_witness[witness][not report] *= rates.garble
    likely = [1.0]  # of reports whose source is known, summed over statements with so many that say yes
    for no, yes in by_witness:
        likely = [a * no + b * yes for a, b in zip([*likely, 0.0], [0.0, *likely], strict=True)]
    total = [0.0, 0.0]
    for k, likelihood in enumerate(likely):
        report_yes = (k * (1 - rates.garble) + (witnesses - k) * rates.garble) / witnesses
        likelihood *= report_yes ** unknown[True] * (1 - report_yes) ** unknown[False]
        for event, rate in enumerate((rates.false_alarm, rates.hit)):
            total[event] += likelihood * rate**k * (1 - rate) ** (witnesses - k)
    return rates.base * total[1] / ((1 - rates.base) * total[0] + rates.base * total[1])


def naive_log_likelihood_ratio(rates: Rates, report: bool) -> float:
    r"""Evidence of a report, in nats, if each had a witness of its own: $\ln P(r_j\mid 1)/P(r_j\mid 0)$."""
    yes, no = (rate * (1 - rates.garble) + (1 - rate) * rates.garble for rate in (rates.hit, rates.false_alarm))
    return math.log(yes / no) if report else math.log((1 - yes) / (1 - no))


def naive_path(rates: Rates, content: Sequence[bool], traced: bool) -> list[float]:
    """The naive reader's probability before any report, after each, and after the last piece if there is one."""
    ratios = [naive_log_likelihood_ratio(rates, report) for report in content] + [0.0] * traced
    return [generated.probability(generated.logit(rates.base) + math.fsum(ratios[:k])) for k in range(len(ratios) + 1)]


def posterior_path(
    rates: Rates, witnesses: int, content: Sequence[bool], at_once: Sources, later: Sources | None
) -> list[float]:
    """The exact posterior before any report, after each, and after the last piece, which names more witnesses."""
    stages = [(tuple(content[:k]), tuple(at_once[:k])) for k in range(len(content) + 1)]
    if later is not None:
        stages.append((tuple(content), tuple(later)))
    return [exact_posterior(rates, witnesses, *stage) for stage in stages]
