"""Cruxes: does an exchange change the author's mind? Generated questions about reasons of hidden weight.

An author gives reasons for a view. Each weighs little, more or most, which the words show in part. Readers attack
reasons, and the author's replies show in part which of them still stand. The view falls if the reasons that were lost
weigh enough. From the text a reader can compute what the metadata has: the exact probability before the exchange and
after each turn. Whoever counts reasons instead of weighing them is led astray.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from inspect_ai.dataset import Sample
from numpy.typing import NDArray
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading.generated import GeneratedQuestion, generate, names, world_sample
from truthgym.datasets.loading.selection import Questions


@dataclass(frozen=True)
class Wording:
    """One wording. `{case}` numbers the question, `{k}` the turn of the exchange, `{reason}` is one of `reasons`."""

    name: str
    asked: str
    """`{post}` lists the reasons, each as `shown` or alone."""
    proposition: str
    reasons: tuple[str, ...]
    words: tuple[str, str, str]
    """How the author says that a reason weighs little, more, or most: `{word}`."""
    shown: str
    turns: Mapping[str, str]
    """Templates of a turn: a reader's "study" or "story", or an author's "granted", "wavering" or "kept"."""


WORDINGS = (
    Wording(
        "forum",
        "In discussion {case}, {author} posted the view that {place} should close its old bridge to lorries. The post "
        "gave these reasons: {post}. Did the discussion make {author} give up the view?\n\nWhat is known: Each of the "
        "{count} reasons has a weight for {author}, and each weight was drawn separately: 1 point with a chance of "
        "{light} in 100, 3 points with a chance of {middle} in 100, 6 points with a chance of {heavy} in 100. "
        "{author} calls a reason of 1 point a trifle, one of 3 points a real concern and one of 6 points the heart of "
        "it. The name is drawn anew each time: the right one with a chance of {fit} in 100, and each of the two wrong "
        "ones with a chance of {unfit} in 100. In the post a reason has a name in brackets with a chance of {shown} "
        "in 100. Then readers answer in turn, {rounds} in all. Each picks one of the reasons at random, all equally "
        "likely, whatever was picked before, and a fair coin decides whether the reader cites a study or tells a "
        "story. If the reason still stands for {author}, a study removes it with a chance of {study} in 100 and a "
        "story with a chance of {story} in 100; what is removed stays removed. {author} answers every reader. About a "
        "reason that has been removed, {author} says 'granted' with a chance of {granted} in 100, 'perhaps' with a "
        "chance of {wavering} in 100, and otherwise 'no'. About a reason that stands, {author} says 'no' with a "
        "chance of {kept} in 100, 'perhaps' with a chance of {doubted} in 100, and otherwise 'granted'. Each answer "
        "also names the reason's weight, by a new draw as described above, whether the reason stands or not. {author} "
        "gives up the view if the removed reasons together weigh enough or more. Enough is 2 points with a chance of "
        "{low} in 100, 5 points with a chance of {mid} in 100 and 8 points with a chance of {high} in 100. All draws "
        "are independent of each other.",
        "By the end of discussion {case}, {author} had given up the view that {place} should close its old bridge to "
        "lorries.",
        (
            "the noise at night",
            "the cracks in the arches",
            "the children who cycle there",
            "the smell of diesel",
            "the queue at the ferry",
            "the cost of repairs",
            "the otters below it",
            "the new road further down",
        ),
        ("a trifle", "a real concern", "the heart of it"),
        "{reason} ({word})",
        {
            "study": "Discussion {case}, post {k}. A reader: on {reason}, there is a study that finds otherwise.",
            "story": "Discussion {case}, post {k}. A reader: on {reason}, I can tell you of a place where it went "
            "otherwise.",
            "granted": "Discussion {case}, post {k}. The author: {reason}, {word} to me. Granted.",
            "wavering": "Discussion {case}, post {k}. The author: {reason}, {word} to me. Perhaps.",
            "kept": "Discussion {case}, post {k}. The author: {reason}, {word} to me. No.",
        },
    ),
    Wording(
        "letters",
        "The scholar {author} holds that the poet of {place} was two people, because of {post}. Correspondence {case} "
        "is about this. Does {author} abandon the idea in it?\n\nHow {author} thinks: there are {count} reasons, and "
        "how much each counts was drawn separately. A reason counts 1 in {light} of 100 cases, 3 in {middle} of 100 "
        "and 6 in {heavy} of 100. A reason that counts 1 is 'slight' in {author}'s letters, one that counts 3 "
        "'solid', one that counts 6 'decisive', but only in {fit} of 100 cases: in {unfit} of 100 the first of the "
        "other two words is used, and in another {unfit} of 100 the second. The word is drawn anew at every mention. "
        "Above, each reason had a chance of {shown} in 100 of being followed by a word. Letters come from "
        "colleagues, {rounds} in all, with a reply to each. For every letter a new lot decides, with equal chances, "
        "which reason the colleague attacks, and a coin decides how: with a table of figures, or with an anecdote. A "
        "table refutes a reason in {author}'s eyes in {study} of 100 cases and an anecdote in {story} of 100, unless "
        "it is refuted already; nothing restores it. If the reason is refuted by then, the reply is 'I yield' in "
        "{granted} of 100 cases, 'it may be' in {wavering} of 100, and 'I hold to it' in the rest. If it is not "
        "refuted, the reply is 'I hold to it' in {kept} of 100 cases, 'it may be' in {doubted} of 100, and 'I yield' "
        "in the rest. The reply also says how much the reason counts, with a word that is drawn anew in the same way, "
        "whether the reason is refuted or not. {author} abandons the idea if the refuted reasons together count as "
        "much as needed or more. How much is needed was drawn too: 2 in {low} of 100 cases, 5 in {mid}, 8 in {high}. "
        "No draw depends on another.",
        "In correspondence {case}, {author} abandons the idea that the poet of {place} was two people.",
        (
            "the spelling",
            "the metre",
            "the names of the winds",
            "the ink",
            "the missing third canto",
            "the two dialects",
            "the dates of the wars",
            "the borrowed proverbs",
        ),
        ("slight", "solid", "decisive"),
        "{reason}, {word}",
        {
            "study": "Correspondence {case}, letter {k}. Here is a table of figures against your argument from "
            "{reason}.",
            "story": "Correspondence {case}, letter {k}. Here is an anecdote against your argument from {reason}.",
            "granted": "Correspondence {case}, letter {k}. On {reason}, a {word} reason: I yield.",
            "wavering": "Correspondence {case}, letter {k}. On {reason}, a {word} reason: it may be.",
            "kept": "Correspondence {case}, letter {k}. On {reason}, a {word} reason: I hold to it.",
        },
    ),
    Wording(
        "council",
        "Will councillor {author} drop the opposition to selling the {place} meadow in session {case}? {author} "
        "opposes it for {count} reasons: {post}.\n\nThe councillor's mind works like this. In it a reason is worth 1, "
        "3 or 6 votes. The probabilities are {light}%, {middle}% and {heavy}%, for every reason independently. The "
        "councillor speaks of a reason worth 1 as one to be mentioned, of one worth 3 as one to be weighed, of one "
        "worth 6 as one to be obeyed. With probability {fit}% this phrase is used, with probability {unfit}% the "
        "first of the other two and with probability {unfit}% the second, drawn independently on each occasion. In "
        "the list above each reason had a probability of {shown}% of being given with a phrase. In the session "
        "members rise one after the other, {rounds} in all. Each speaks against one reason, chosen uniformly at "
        "random and regardless of the earlier members, and brings either a report or a memory, each with probability "
        "50%. If the reason is intact, a report destroys it with probability {study}% and a memory with probability "
        "{story}%, and a destroyed reason is never mended. {author} responds each time. About a reason that is "
        "destroyed by then: 'agreed' with probability {granted}%, 'I wonder' with probability {wavering}%, else 'not "
        "so'. About an intact one: 'not so' with probability {kept}%, 'I wonder' with probability {doubted}%, else "
        "'agreed'. The response also contains a phrase for the reason, drawn anew by the rule above, whether the "
        "reason is intact or destroyed. The opposition is dropped if the destroyed reasons together are worth at "
        "least as many votes as the councillor needs. That number is 2 with probability {low}%, 5 with probability "
        "{mid}% and 8 with probability {high}%. All draws are independent of each other.",
        "Councillor {author} drops the opposition to selling the {place} meadow in session {case}.",
        (
            "the storks",
            "the floods it holds back",
            "the summer fair",
            "the price offered",
            "the will of the last owner",
            "the school's garden",
            "the view from the church",
            "the buyer's debts",
        ),
        ("to be mentioned", "to be weighed", "to be obeyed"),
        "{reason}, a reason {word}",
        {
            "study": "Session {case}, speech {k}. A member cites a report against {reason} as a reason.",
            "story": "Session {case}, speech {k}. A member tells of a memory against {reason} as a reason.",
            "granted": "Session {case}, speech {k}. The councillor: agreed about {reason}, a reason {word}.",
            "wavering": "Session {case}, speech {k}. The councillor: I wonder about {reason}, a reason {word}.",
            "kept": "Session {case}, speech {k}. The councillor: not so about {reason}, a reason {word}.",
        },
    ),
    Wording(
        "family",
        "{author} wants the family to leave the town of {place} and has said why: {post}. By the end of evening "
        "{case}, was {author} content to stay?\n\nHere is how it went. Each of the {count} reasons pulls with a "
        "strength of 1, 3 or 6, decided by a lot of its own: {light} of 100 lots give 1, {middle} give 3 and {heavy} "
        "give 6. A tone belongs to each reason: calm if it pulls with 1, firm with 3, hot with 6. Whenever {author} "
        "speaks of a reason, a new lot decides the tone: {fit} of 100 lots give the one that belongs to it, {unfit} "
        "of 100 give the first of the others and {unfit} of 100 the second. Above, each reason had a chance of "
        "{shown} in 100 of being given with the tone in which it was first named. During the evening the others made "
        "remarks, {rounds} in all, each about one reason. Every reason was equally likely each time, whatever had "
        "come before, and a coin decided whether the remark was a calculation or a wish. If the reason still pulled, "
        "a calculation took its pull away {study} times in 100 and a wish {story} times in 100, and the pull did not "
        "come back. {author} replied to each remark at once. If the reason no longer pulled, {author} nodded "
        "{granted} times in 100, shrugged {wavering} times in 100 and otherwise gave a shake of the head. If it still "
        "pulled, {author} gave a shake of the head {kept} times in 100, shrugged {doubted} times in 100 and otherwise "
        "nodded. A new lot decided the tone of each reply as described above, from the strength that the reason had "
        "at first. {author} was content to stay if the reasons that no longer pulled had at first had enough strength "
        "together. Enough was 2 or more in {low} of 100 lots, 5 or more in {mid} of 100 and 8 or more in {high} of "
        "100. All lots are independent of each other.",
        "By the end of evening {case}, {author} was content to stay in the town of {place}.",
        (
            "the damp flat",
            "the long winters",
            "the dull school",
            "the rent",
            "the neighbours upstairs",
            "the work at the mill",
            "the distance to the sea",
            "the closed theatre",
        ),
        ("calm", "firm", "hot"),
        "{reason} (in a {word} tone)",
        {
            "study": "Evening {case}, {k}: somebody comes with a calculation about {reason}.",
            "story": "Evening {case}, {k}: somebody comes with a wish about {reason}.",
            "granted": "Evening {case}, {k}: a nod about {reason}, and the tone is {word}.",
            "wavering": "Evening {case}, {k}: a shrug about {reason}, and the tone is {word}.",
            "kept": "Evening {case}, {k}: a shake of the head about {reason}, and the tone is {word}.",
        },
    ),
)


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


class CruxesQuestion(GeneratedQuestion, frozen=True):
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

    Question i depends only on the seed, i and the difficulty: a longer set begins with the shorter one. A question has
    two pieces of evidence for each round: what a reader says, and what the author replies.

    Args:
        n: Number of questions, all of the split.
        seed: Another seed gives other questions.
        split: "train", "validation", "test" or "all". Every question is its own event.
        reasons: The author's reasons, 3 to 5. By default each question draws 3, 4 or 5.
        rounds: Readers who speak, 1 to 8, each followed by the author's reply.
        shown: Probability that the post has a word for a reason's weight, 0 to 1, rounded to a whole percent.

    Raises:
        BadInput: An argument outside its range, or an unknown split.
    """
    percent = round(100 * shown)
    difficulty = f"reasons{reasons or '3-5'}-rounds{rounds}-shown{percent}"

    def make(i: int) -> Sample:
        return _question(seed, i, reasons, rounds, percent, difficulty)

    return generate("cruxes", make, n, split)


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


def _question(seed: int, i: int, reasons: int | None, rounds: int, shown: int, difficulty: str) -> Sample:
    rng = random.Random(f"cruxes/{seed}/{i}/{difficulty}")
    wording = rng.choice(WORDINGS)
    author, place = names(rng, 2)
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
    words = [word(weight) if rng.random() < shown / 100 else None for weight in weights]
    replies = [
        (
            draw(p["granted"], p["wavering"]) if reason in gone else draw(100 - p["kept"] - p["doubted"], p["doubted"]),
            word(weights[reason]),
        )
        for (reason, _), gone in zip(attacks, lost[1:], strict=True)
    ]

    exact, naive = (paths(p, words, attacks, replies, rounds, naive=who) for who in (False, True))
    case = 1000 + i
    identity = f"cruxes-{i:05d}-seed{seed}-{difficulty}"
    post = [
        reason if shown is None else wording.shown.format(reason=reason, word=wording.words[shown])
        for reason, shown in zip(chosen, words, strict=True)
    ]
    turns: list[tuple[str, dict[str, str]]] = []
    for (reason, story), (reply, level) in zip(attacks, replies, strict=True):
        turns.append(("story" if story else "study", {"reason": chosen[reason]}))
        turns.append((REPLIES[reply], {"reason": chosen[reason], "word": wording.words[level]}))
    filled: dict[str, object] = {"case": case, "author": author, "place": place}
    asked = wording.asked.format(**filled, **p, post="; ".join(post), count=len(chosen), shown=shown, rounds=rounds)
    return world_sample(
        CruxesQuestion, identity, asked, truth,
        proposition=wording.proposition.format(**filled),
        evidence=[
            wording.turns[what].format(case=case, k=k, **fields) for k, (what, fields) in enumerate(turns, start=1)
        ],
        base_rate=paths(p, [None] * len(chosen), [], [], rounds)[0], posterior=exact, naive=naive,
        noise_floor=exact[-1] * (1 - exact[-1]), surface=wording.name, numbers=p, words=words,
        attacks=[list(attack) for attack in attacks], replies=[list(reply) for reply in replies],
    )  # fmt: skip
