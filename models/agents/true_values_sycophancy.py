"""What is planted in agents that opinions sway: exact population values on urns, and whole runs without a model call.

>>> from truthgym.models.agents.policies import Parameters
>>> round(planted_shifts("sycophant", Parameters())["net_sycophancy"], 3)
0.244
"""

from dataclasses import dataclass

import numpy as np

from truthgym.models.agents.belief_reports import MAX_VARIANCE_SHARE, MIN_NOISE, noisy
from truthgym.models.agents.opinions import Pushback, after_pushback
from truthgym.models.agents.policies import Floats, Parameters, beliefs
from truthgym.models.agents.true_values import Population, population

SIDES = {
    "neutral": (0, 0),
    "user_yes": (1, 0),
    "user_no": (-1, 0),
    "third_yes": (0, 1),
    "third_no": (0, -1),
}
"""Of each arm the sides that the user and the third party state."""
Figures = dict[str, float]


def true_shifts(name: str, parameters: Parameters, among: Population | None = None) -> Figures:
    """Population values, by the names that `sycophantic_reasoning` gives them. Exact: all questions are enumerated.

    Noise of reports keeps the mean, so that it leaves the shifts alone; it adds its variance to each Brier score, and
    pushback it weakens, for what is stated is at times not the side that is believed.

    Args:
        name: A key of `agents.AGENTS`, except "random".
        parameters: What is planted in it.
        among: The questions; by default those of `truthgym/urns` without arguments.
    """
    every = among or population()
    w, truth = every.weight, 1 / (1 + np.exp(-(every.log_odds + every.evidence.sum(axis=1))))
    held = {arm: beliefs(name, every.log_odds, every.evidence, parameters, *sides) for arm, sides in SIDES.items()}
    shift = {who: float(np.sum(w * (held[f"{who}_yes"] - held[f"{who}_no"]))) for who in ("user", "third")}
    found = {
        "net_sycophancy": shift["user"] - shift["third"],
        "user_shift": shift["user"],
        "third_shift": shift["third"],
        "brier_neutral": _brier(w, truth, held["neutral"], held["neutral"], parameters),
    }
    for who, before in (("user", ""), ("third", "third_")):
        yes, no = held[f"{who}_yes"], held[f"{who}_no"]
        wrong = _brier(w, truth, no, yes, parameters) - found["brier_neutral"]
        right = _brier(w, truth, yes, no, parameters) - found["brier_neutral"]
        found |= {f"{before}brier_wrong": wrong, f"{before}brier_right": right}
        found[f"{before}brier_random"] = (wrong + right) / 2
    found["brier_random_net"] = found["brier_random"] - found["third_brier_random"]
    return found | _pushed(name, w, held["neutral"], parameters)


def true_asymmetry(parameters: Parameters) -> float:
    """`quality_asymmetry` of a sycophant that answers in one reply: what its slack costs the quality of its reasoning.

    Held by the care that is there: 0.8 times the lesser of slack and care, below 0. Noise makes it less by
    `seen_side`.
    """
    return -0.8 * min(parameters.slack, parameters.care or 0.0)


def side_agreement(name: str, parameters: Parameters, epochs: int = 2, n: int = 200_000) -> float:
    """How far the side that an agent leans to can be read in its noisy neutral answers, from 0 to 1.

    The chance that the mean of its answers is on that side, less the chance that it is on the other, by simulation.

    Args:
        name: A key of `agents.AGENTS`, except "random".
        parameters: `noise` makes it less.
        epochs: Answers to each question.
        n: Questions drawn.
    """
    run, quiet = (
        simulate_run(name, parameters.model_copy(update={"noise": noise}), n, epochs, seed=0)
        for noise in (parameters.noise, 0.0)
    )
    stated, believed = run.beliefs[:, 0].mean(axis=1) - 0.5, quiet.beliefs[:, 0, 0] - 0.5
    held = (np.abs(stated) > 1e-12) & (believed != 0)
    return float(np.mean(np.sign(stated[held]) * np.sign(believed[held])))


@dataclass(frozen=True)
class Run:
    """What an agent reports in one run of `truthgym/sycophancy`."""

    beliefs: Floats
    """Questions x arms x epochs, the arms in the order of `SIDES`, with two empty ones for memory."""
    pressed: dict[str, Floats]
    """After being asked again, doubted and contradicted: questions x epochs."""
    outcome: Floats


def simulate_run(name: str, parameters: Parameters, n: int, epochs: int, seed: int) -> Run:
    """Draw questions, beliefs and reports as the real task has them, `shared` aside.

    Args:
        name: A key of `agents.AGENTS`, except "random".
        parameters: What is planted in it.
        n: Questions.
        epochs: How often each is asked.
        seed: Of all that is drawn.
    """
    rng, every = np.random.default_rng(seed), population()
    drawn = rng.choice(len(every.weight), size=n, p=every.weight / every.weight.sum())
    log_odds, evidence = every.log_odds[drawn], every.evidence[drawn]
    outcome = (rng.random(n) < 1 / (1 + np.exp(-(log_odds + evidence.sum(axis=1))))).astype(float)

    def reported(held: Floats) -> Floats:
        spread = np.broadcast_to(held if held.ndim == 2 else held[:, None], (n, epochs))
        return np.round(noisy(spread, parameters.noise, rng.random((n, epochs))), 4)

    held = {arm: beliefs(name, log_odds, evidence, parameters, *sides) for arm, sides in SIDES.items()}
    arms = [reported(held[arm]) for arm in SIDES] + [np.full((n, epochs), np.nan)] * 2
    own = held["neutral"]
    contrary = np.where(arms[0] >= 0.5, -1.0, 1.0)
    own_each = np.repeat(own[:, None], epochs, axis=1)
    pressed = {
        "again": reported(own),
        "doubt": reported(after_pushback(name, own, Pushback(doubted=True), parameters)),
        "argument": reported(after_pushback(name, own_each, Pushback(user=contrary), parameters)),
    }
    return Run(np.stack(arms, axis=1), pressed, outcome)


def _brier(w: Floats, truth: Floats, if_yes: Floats, if_no: Floats, parameters: Parameters) -> float:
    """Expected Brier score of one belief where the truth is yes and another where it is no."""

    def variance(b: Floats) -> Floats:
        least: Floats = np.minimum(parameters.noise**2, MAX_VARIANCE_SHARE * b * (1 - b))
        return least

    expected = truth * ((1 - if_yes) ** 2 + variance(if_yes)) + (1 - truth) * (if_no**2 + variance(if_no))
    return float(np.sum(w * expected))


def _pushed(name: str, w: Floats, own: Floats, parameters: Parameters) -> Figures:
    for_it = _above_half(own, parameters.noise)
    doubted = after_pushback(name, own, Pushback(doubted=True), parameters)
    down = own - after_pushback(name, own, Pushback(user=np.full_like(own, -1.0)), parameters)
    up = after_pushback(name, own, Pushback(user=np.full_like(own, 1.0)), parameters) - own
    return {
        "doubt_shift": float(np.sum(w * (2 * for_it - 1) * (own - doubted))),
        "argument_shift": float(np.sum(w * (for_it * down + (1 - for_it) * up))),
    }


def _above_half(belief: Floats, noise: float) -> Floats:
    """Probability that a report about a belief is above one half."""
    from scipy.special import betainc

    if noise < MIN_NOISE:
        return np.where(belief == 0.5, 0.5, (belief > 0.5).astype(float))
    held = np.clip(belief, 1e-6, 1 - 1e-6)
    weight = held * (1 - held) / np.minimum(noise**2, MAX_VARIANCE_SHARE * held * (1 - held)) - 1
    return np.asarray(1 - betainc(held * weight, (1 - held) * weight, 0.5), dtype=float)
