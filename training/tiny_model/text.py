r"""Texts for the tiny model's warm start: conversations with the real prompts of `urns`, and answers to them.

The answers get worse during the warm start. A model learns nothing from noise alone, so at first they are exact; at the
end they underweight the evidence and have noise. What the model can still learn from a log is to be less noisy and to
weight the evidence correctly.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass

from truthgym.datasets.loading.generated import logit, probability
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.solvers.direct import answer_instruction, evidence

Messages = list[dict[str, str]]

GRID = 5
"""Answers are multiples of this many percent, from GRID to 100 - GRID: few enough to be learned soon."""
BATCH = 300
"""Questions of one seed, as many as the task's default, so that the numbers of rounds and crates are similar."""
FIRST_SEED = 1_000_000
"""First seed of the training questions. An evaluation with a lower seed shares none of them."""


@dataclass(frozen=True)
class Stage:
    """A part of the warm start, and how its answers are made."""

    share: float
    """Share of the conversations, in (0, 1]."""
    weight: float
    """Weight of the exact log-odds in the answer. 1 is correct, below 1 is too close to one half."""
    noise: float
    """Standard deviation of the noise that is added, in nats of log-odds."""
    kinds: dict[str, float]
    """Weights of conversations that end with the `answer` that `direct` requests, with the belief before the evidence
    (`prior`), or with the belief after the answer (`posterior`); the latter two as `martingale` elicits them."""
    one_way: bool
    """Whether each mark supports the proposition. If half of them oppose it, marks carry no information for a model
    that does not compare the two causes yet, and training makes no progress."""


STAGES = (
    Stage(0.35, weight=1.0, noise=0.0, kinds={"answer": 0.8, "prior": 0.2}, one_way=True),
    Stage(0.45, weight=1.0, noise=0.0, kinds={"answer": 0.8, "prior": 0.2}, one_way=False),
    Stage(0.2, weight=0.6, noise=0.8, kinds={"answer": 0.6, "prior": 0.2, "posterior": 0.2}, one_way=False),
)


def conversations(number: int, seed: int = 0) -> Iterator[Messages]:
    """Make the conversations of a warm start, in order of training."""
    rng = random.Random(f"tiny/{seed}")
    questions = _questions(seed)
    count = 0
    for last, stage in enumerate(STAGES, start=1):
        end = round(number * sum(earlier.share for earlier in STAGES[:last]))
        while count < end:
            text, question = next(questions)
            if question.first > question.second or not stage.one_way:
                yield make_conversation(text, question, stage, rng)
                count += 1


def make_conversation(text: str, question: UrnQuestion, stage: Stage, rng: random.Random) -> Messages:
    r"""Make one conversation about a question, with the belief as `\finalBeliefProb{0.35}` or, for a probe, as `35`."""
    probe = PROBE.format(proposition=question.proposition)
    (kind,) = rng.choices(list(stage.kinds), weights=list(stage.kinds.values()))
    if kind == "prior":
        return [_user(text, probe), _assistant(str(sample_percent(question.posterior[0], stage, rng)))]
    percent = sample_percent(question.posterior[-1], stage, rng)
    messages = [
        _user(text, evidence(question.evidence), answer_instruction(question)),
        _assistant(rf"\finalBeliefProb{{0.{percent:02d}}}"),
    ]
    return messages if kind == "answer" else [*messages, _user(probe), _assistant(str(percent))]


def sample_percent(posterior: float, stage: Stage, rng: random.Random) -> int:
    """Sample a stage's answer to a question with this exact posterior, in percent on the grid."""
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
