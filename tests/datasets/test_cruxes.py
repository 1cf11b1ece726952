import math
from fractions import Fraction
from itertools import product

import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets.cruxes import CruxesQuestion, cruxes


def of(item: Sample) -> CruxesQuestion:
    return item.metadata_as(CruxesQuestion)


def by_hand(q: CruxesQuestion, attacks: list[list[int]], replies: list[list[int]], rounds: int, read: bool) -> Fraction:
    """Bayes' rule over all weights, attacks to come and successes of attacks, in exact arithmetic.

    `read` is whether the words of the post are read.
    """
    p = {name: Fraction(chance, 100) for name, chance in q.numbers.items()}
    weight = {1: p["light"], 3: p["middle"], 6: p["heavy"]}
    enough = {2: p["low"], 5: p["mid"], 8: p["high"]}
    order = list(weight)
    total = [Fraction(0), Fraction(0)]
    every = list(product(range(len(q.words)), (0, 1)))
    for weights in product(weight, repeat=len(q.words)):
        known = Fraction(math.prod(weight[w] for w in weights))
        for w, word in zip(weights, q.words, strict=True):
            known *= 1 if word is None or not read else p["fit"] if order[word] == w else p["unfit"]
        for future in product(every, repeat=rounds - len(attacks)):
            course = [*map(tuple, attacks), *future]
            for works in product((True, False), repeat=rounds):
                chance, lost = known, set()
                for k, ((reason, story), success) in enumerate(zip(course, works, strict=True)):
                    convinces = p["story" if story else "study"]
                    chance *= convinces if success else 1 - convinces
                    lost |= {reason} if success else set()
                    for stance, word in replies[k : k + 1]:
                        if reason in lost:
                            says = (p["granted"], p["wavering"], 1 - p["granted"] - p["wavering"])
                        else:
                            says = (1 - p["kept"] - p["doubted"], p["doubted"], p["kept"])
                        chance *= says[stance] * (p["fit"] if order[word] == weights[reason] else p["unfit"])
                points = sum(weights[reason] for reason in lost)
                total[0] += chance
                total[1] += chance * sum(c for needs, c in enough.items() if points >= needs)
    return total[1] / total[0]


def test_the_posterior_is_exact_after_every_turn() -> None:
    for item in [*cruxes(n=1, reasons=3, rounds=2), *cruxes(n=1, reasons=4, rounds=1, shown=1.0)]:
        q = of(item)
        rounds = len(q.attacks)
        turns = [(k, j) for k in range(rounds + 1) for j in (k - 1, k) if j >= 0]
        owed = [float(by_hand(q, q.attacks[:k], q.replies[:j], rounds, read=True)) for k, j in turns]
        assert q.posterior == pytest.approx(owed, abs=1e-12)
        assert q.base_rate == pytest.approx(float(by_hand(q, [], [], rounds, read=False)), abs=1e-12)
        assert q.noise_floor == pytest.approx(owed[-1] * (1 - owed[-1]), abs=1e-12)


def test_the_naive_reader_gives_all_reasons_the_mean_weight() -> None:
    for item in cruxes(n=4, reasons=3, rounds=1):
        q = of(item)
        p = {name: chance / 100 for name, chance in q.numbers.items()}
        mean = p["light"] + 3 * p["middle"] + 6 * p["heavy"]
        moved = sum(p[name] for name, points in (("low", 2), ("mid", 5), ("high", 8)) if mean >= points)
        ((_, story),), ((reply, _),) = q.attacks, q.replies
        success = p["story"] if story else p["study"]
        yes = success * (p["granted"], p["wavering"], 1 - p["granted"] - p["wavering"])[reply]
        no = (1 - success) * (1 - p["kept"] - p["doubted"], p["doubted"], p["kept"])[reply]
        owed = [moved * (p["study"] + p["story"]) / 2, moved * success, moved * yes / (yes + no)]
        assert q.naive == pytest.approx(owed)
