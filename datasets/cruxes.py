"""Cruxes: does an exchange change the author's mind? Generated questions about reasons of hidden weight."""

from collections.abc import Mapping, Sequence
from typing import Annotated

import numpy as np
from inspect_ai.dataset import Sample
from numpy.typing import NDArray
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading import generated
from truthgym.datasets.loading.selection import Questions

WORDINGS = generated.wordings("cruxes", generated.Wording)
"""Each has five or more `reasons`, and three `words` that say that a reason weighs little, more, or most."""


POINTS = (1, 3, 6)
"""What a reason may weigh."""
ENOUGH = (2, 5, 8)
"""Points that the lost reasons must weigh together."""
RANGES = {
    "light": (30, 50), "heavy": (20, 30), "unfit": (4, 12), "study": (45, 75), "story": (15, 40), "granted": (65, 78),
    "wavering": (12, 18), "kept": (68, 80), "doubted": (10, 15), "low": (20, 35), "high": (15, 30),
}  # fmt: skip
"""The percents that each question draws evenly from a range. `middle`, `fit` and `mid` are what remains of 100."""
STATED = (*RANGES, "middle", "fit", "mid")
REPLIES = ("granted", "wavering", "kept")

Floats = NDArray[np.float64]


class CruxesQuestion(generated.GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    numbers: dict[str, int]
    """The chances in 100 that the text states, by field of its wording."""
    words: list[int | None]
    """For each reason what its word in the post says it weighs: 0 for little to 2 for most, or None without a word."""
    attacks: list[list[int]]
    """For each reader's turn the reason's number, and 1 if it is a story."""
    replies: list[list[int]]
    """For each reply its place in `REPLIES`, and what its word says."""
    noise_floor: float
    """Expected Brier score after the exchange of an exact reader, in [0, 0.25]: nobody who has only the text can
    expect less."""


@validate_call
def cruxes(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    reasons: Annotated[int | None, Field(ge=3, le=5)] = None,
    rounds: Annotated[int, Field(ge=1, le=8)] = 4,
    shown: Annotated[float, Field(ge=0, le=1)] = 0.5,
) -> Questions:
    """Generate questions about whether an exchange makes an author give up a view.

    A question has two pieces of evidence for each round: what a reader says, and what the author replies.

    Args:
        reasons: The author's reasons, 3 to 5. By default each question draws 3, 4 or 5.
        rounds: Readers who speak, 1 to 8, each followed by the author's reply.
        shown: Probability that the post has a word for a reason's weight, 0 to 1, rounded to a whole percent.
    """
    percent = round(100 * shown)
    difficulty = f"reasons{reasons or '3-5'}-rounds{rounds}-shown{percent}"

    def make(i: int) -> Sample:
        rng, identity = generated.seeded("cruxes", seed, i, difficulty)
        wording = rng.choice(WORDINGS)
        author, place = generated.names(rng, 2)
        chosen = rng.sample(wording.reasons, reasons or rng.randint(3, 5))
        p = {name: rng.randint(*ends) for name, ends in RANGES.items()}
        p |= {
            "middle": 100 - p["light"] - p["heavy"], "fit": 100 - 2 * p["unfit"], "mid": 100 - p["low"] - p["high"]
        }  # fmt: skip

        def draw(*percents: int) -> int:
            """A place among these, each with so many chances in 100, or the place after them with the rest."""
            return rng.choices(range(len(percents) + 1), [*percents, 100 - sum(percents)])[0]

        def word(weight: int) -> int:
            return draw(*(p["fit"] if level == weight else p["unfit"] for level in range(2)))

        weights = [draw(p["light"], p["middle"]) for _ in chosen]
        enough = ENOUGH[draw(p["low"], p["mid"])]
        attacks = [(rng.randrange(len(chosen)), rng.randrange(2)) for _ in range(rounds)]
        lost: list[set[int]] = [set()]
        for reason, story in attacks:
            falls = rng.random() < p["story" if story else "study"] / 100
            lost.append(lost[-1] | ({reason} if falls else set()))
        truth = sum(POINTS[weights[reason]] for reason in lost[-1]) >= enough
        words = [word(weight) if rng.random() < percent / 100 else None for weight in weights]
        replies = [
            (
                draw(p["granted"], p["wavering"])
                if reason in gone
                else draw(100 - p["kept"] - p["doubted"], p["doubted"]),
                word(weights[reason]),
            )
            for (reason, _), gone in zip(attacks, lost[1:], strict=True)
        ]

        exact, naive = (paths(p, words, attacks, replies, rounds, naive=who) for who in (False, True))
        case = 1000 + i
        post = [
            reason if level is None else wording.shown.format(reason=reason, word=wording.words[level])
            for reason, level in zip(chosen, words, strict=True)
        ]
        turns: list[tuple[str, dict[str, str]]] = []
        for (reason, story), (reply, level) in zip(attacks, replies, strict=True):
            turns.append(("story" if story else "study", {"reason": chosen[reason]}))
            turns.append((REPLIES[reply], {"reason": chosen[reason], "word": wording.words[level]}))
        filled: dict[str, object] = {"case": case, "author": author, "place": place}
        asked = wording.asked.format(
            **filled, **p, post="; ".join(post), count=len(chosen), shown=percent, rounds=rounds
        )
        return generated.world_sample(
            CruxesQuestion, identity, asked, truth,
            proposition=wording.proposition.format(**filled),
            evidence=[
                wording.turns[what].format(case=case, k=k, **fields) for k, (what, fields) in enumerate(turns, start=1)
            ],
            base_rate=paths(p, [None] * len(chosen), [], [], rounds)[0], posterior=exact, naive=naive,
            noise_floor=exact[-1] * (1 - exact[-1]), surface=wording.name, numbers=p, words=words,
            attacks=[list(attack) for attack in attacks], replies=[list(reply) for reply in replies],
        )  # fmt: skip

    return generated.generate("cruxes", make, n, split)


def gives_up(
    standing: Floats, lost: Floats, adds: Sequence[int], enough: Floats, persuaded: float, left: Floats
) -> Floats:
    r"""Probabilities that the author gives up the view, at each stage of an exchange.

    If a reason stands with weight w with chance $u_w$, and N attacks are to come, each on one of m reasons and with the
    chance c of success, then the reasons that are not lost in the end are found by inclusion and exclusion: that j
    named ones all escape has the probability $(1-cj/m)^N$, whichever they are. So a sum over j is enough.

    `standing` and `lost` are the chances that a reason has a weight and stands or is lost: stages x reasons x weights.
    `adds` is what a lost reason of each weight adds to the total, `enough` the chance that each total is enough,
    `persuaded` is c, and `left` is N at each stage.
    """
    stages, m, _ = standing.shape
    total = np.zeros((stages, m + 1, len(enough)))
    total[:, 0, 0] = 1
    for i in range(m):
        more = np.zeros_like(total)
        for w, add in enumerate(adds):
            stands, falls = standing[:, i, w, None, None], lost[:, i, w, None, None]
            end = len(enough) - add
            more[:, :, add:] += (stands + falls) * total[:, :, :end]
            more[:, 1:] += stands * total[:, :-1]
            more[:, 1:, add:] -= stands * total[:, :-1, :end]
        total = more
    escape = (1 - persuaded * np.arange(m + 1) / m) ** left[:, None]
    probabilities: Floats = np.einsum("sj,sjt,t->s", escape, total, enough)
    return probabilities


def paths(
    p: Mapping[str, int],
    words: Sequence[int | None],
    attacks: Sequence[Sequence[int]],
    replies: Sequence[Sequence[int]],
    rounds: int,
    naive: bool = False,
) -> list[float]:
    """The probability that the author gives up the view, before the exchange and after each turn.

    `p` has chances in 100; there is a reply to each attack but perhaps the last. The naive reader gives all reasons the
    same weight, the mean of what is stated, and passes over the words.
    """
    chance = {name: percent / 100 for name, percent in p.items()}
    weights = np.array([chance[name] for name in ("light", "middle", "heavy")])
    limits = np.array([chance[name] for name in ("low", "mid", "high")])
    adds: tuple[int, ...]
    if naive:
        totals, adds = np.arange(len(words) + 1) * float(weights @ POINTS), (1,)
        weights = np.ones(1)
    else:
        totals, adds = np.arange(len(words) * POINTS[-1] + 1.0), POINTS

    def likelihood(word: int | None) -> Floats:
        if naive or word is None:
            return np.ones(len(adds))
        return np.where(np.arange(3) == word, chance["fit"], chance["unfit"])

    standing = weights * np.array([likelihood(word) for word in words])
    standing /= standing.sum(axis=1, keepdims=True)
    lost = np.zeros_like(standing)
    if_lost = chance["granted"], chance["wavering"], 1 - chance["granted"] - chance["wavering"]
    if_not = 1 - chance["kept"] - chance["doubted"], chance["doubted"], chance["kept"]
    stages = [(standing.copy(), lost.copy(), rounds)]
    for k, (reason, story) in enumerate(attacks):
        now, gone = standing[reason], lost[reason]  # views: what follows changes both arrays
        falls = chance["story" if story else "study"] * now
        now -= falls
        gone += falls
        stages.append((standing.copy(), lost.copy(), rounds - k - 1))
        for reply, word in replies[k : k + 1]:
            now *= if_not[reply] * likelihood(word)
            gone *= if_lost[reply] * likelihood(word)
            total = now.sum() + gone.sum()
            now /= total
            gone /= total
            stages.append((standing.copy(), lost.copy(), rounds - k - 1))
    enough: Floats = (totals[:, None] >= ENOUGH) @ limits
    persuaded = (chance["study"] + chance["story"]) / 2
    now_standing, now_lost, left = (np.array(column) for column in zip(*stages, strict=True))
    path: list[float] = gives_up(now_standing, now_lost, adds, enough, persuaded, left).tolist()
    return path
