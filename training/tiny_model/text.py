r"""Texts of the tiny model's warm start: conversations in the real prompts of `urns`, and what is answered in them.

The answers get worse as the warm start goes on. Noise alone teaches nothing, so at first they are exact; at the end
they come from someone who weighs what they know too little and says it with noise. What is left to learn from a log is
to be less noisy and to weigh the evidence rightly.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from truthgym.datasets.urns import UrnQuestion, logit, probability, urns
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.solvers.direct import answer_instruction, evidence

Messages = list[dict[str, str]]

GRID = 5
"""Answers are whole multiples of so many percent, from GRID to 100 - GRID: few enough to be told apart soon."""
BATCH = 300
"""Questions of one seed, as many as the task's default: the numbers of rounds and crates are then alike."""
FIRST_SEED = 1_000_000
"""Of the questions that are learned from, so that an evaluation with a seed below this one shares none of them."""


@dataclass(frozen=True)
class Stage:
    """A part of the warm start, and who answers in it."""

    share: float
    """Of the conversations."""
    weight: float
    """Of the exact log-odds in what is said. 1 is right, below 1 is too near to one half."""
    noise: float
    """Standard deviation of what is added to it, in nats of log-odds."""
    kinds: dict[str, float]
    """Weight of the conversations that end with the `answer` that `direct` asks for, with the belief before evidence
    (`prior`), and with the belief after the answer (`posterior`), these two as `martingale` asks for them."""
    one_way: bool
    """Whether each mark speaks for the proposition. Where half of them speak against it, marks tell nothing to a
    reader that does not yet compare the two causes, and training stands still."""


STAGES = (
    Stage(0.35, weight=1.0, noise=0.0, kinds={"answer": 0.8, "prior": 0.2}, one_way=True),
    Stage(0.45, weight=1.0, noise=0.0, kinds={"answer": 0.8, "prior": 0.2}, one_way=False),
    Stage(0.2, weight=0.6, noise=0.8, kinds={"answer": 0.6, "prior": 0.2, "posterior": 0.2}, one_way=False),
)


def conversations(number: int, seed: int = 0) -> Iterator[Messages]:
    """Make the conversations of a warm start, in the order in which they are learned from.

    Args:
        number: How many.
        seed: Another seed gives other questions and other answers.
    """
    rng = random.Random(f"tiny/{seed}")
    questions = _questions(seed)
    made = 0
    for last, stage in enumerate(STAGES, start=1):
        ends = round(number * sum(earlier.share for earlier in STAGES[:last]))
        while made < ends:
            asked, question = next(questions)
            if question.first > question.second or not stage.one_way:
                yield conversation(asked, question, stage, rng)
                made += 1


def conversation(asked: str, question: UrnQuestion, stage: Stage, rng: random.Random) -> Messages:
    r"""Make one conversation about a question, with beliefs as `\finalBeliefProb{0.35}` or, where so asked, as `35`."""
    probe = PROBE.format(proposition=question.proposition)
    (kind,) = rng.choices(list(stage.kinds), weights=list(stage.kinds.values()))
    if kind == "prior":
        return [_user(asked, probe), _assistant(str(said(question.posterior[0], stage, rng)))]
    percent = said(question.posterior[-1], stage, rng)
    answered = [
        _user(asked, evidence(question.evidence), answer_instruction(question)),
        _assistant(rf"\finalBeliefProb{{0.{percent:02d}}}"),
    ]
    return answered if kind == "answer" else [*answered, _user(probe), _assistant(str(percent))]


def said(posterior: float, stage: Stage, rng: random.Random) -> int:
    """What is said in this stage, in percent on the grid, where the exact posterior is this one."""
    percent = 100 * probability(stage.weight * logit(posterior) + rng.gauss(0, stage.noise))
    return min(max(GRID * round(percent / GRID), GRID), 100 - GRID)


def _questions(seed: int) -> Iterator[tuple[str, UrnQuestion]]:
    for part in range(1000):
        for sample in urns(n=BATCH, seed=FIRST_SEED + 1000 * seed + part):
            yield str(sample.input), sample.metadata_as(UrnQuestion)
    raise ValueError("a warm start of this length would use another seed's questions")


def _user(*parts: str) -> dict[str, str]:
    return {"role": "user", "content": "\n\n".join(part for part in parts if part)}


def _assistant(text: str) -> dict[str, str]:
    return {"role": "assistant", "content": text}
