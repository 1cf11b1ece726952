"""Options of a search."""

from typing import Annotated, Literal

from pydantic import Field

from truthgym.scorers.rubrics.reward import ModelSpec, Protocol
from truthgym.scorers.rubrics.rubric import Data, Scale
from truthgym.training.search.mutation import Schedule, Selection
from truthgym.training.search.objective import Weights

Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
WRITER = ModelSpec(model="reference/proposer")
VERIFIER = ModelSpec(model="reference/judge", model_args={"discernment": 0.25, "noise": 0.1, "length": 0.1})
"""By default the simulated judge sees a quarter of the differences unless a criterion names what to look for, and likes
length."""


class SearchConfig(Data):
    """All that decides a search besides its prompts. Its digest is in every checkpoint."""

    mode: Literal["evolutionary", "iterative", "gepa"] = "evolutionary"
    """"iterative" changes one rubric, one way after the other, and keeps a change that is not worse: the baseline."""
    scope: Literal["global_batch", "prompt_local"] = "global_batch"
    """One rubric for all prompts, or one for each."""
    generations: Count = 12
    population: Count = 8
    mutations: Count = 6
    """Offspring in each generation."""
    parents: Count = 3
    elitism: Count = 2
    """How many of the best stay, whatever the offspring are."""
    batch_size: Count = 3
    """The hardest prompts: their pairs are shown to the proposer, and on them offspring are scored first."""
    survival: Share = 0.5
    """Share of the offspring that are then scored on all prompts."""
    selection: Selection = "rank"
    schedule: Schedule = "fixed"
    tail_fraction: Annotated[float, Field(gt=0, le=1)] = 0.25
    lambda_var: Annotated[float, Field(ge=0)] = 0.2
    mu_diverse: Annotated[float, Field(ge=0)] = 0.25
    pair_confidence_prior: Annotated[float, Field(ge=0)] = 8.0
    patience: Count = 6
    """Generations without an improvement larger than its standard error over prompts, after which the search stops; for
    a single prompt, larger than one pair more in the right order."""
    stop_when_distinguished: bool = True
    """With prompt_local: stop as soon as the best two answers are told apart, see `objective.distinguished`."""
    distinguish_margin: Share = 0.05
    initial: Literal["model", "generic", "rubric"] = "model"
    """The first rubric: the initialiser's, one criterion that names nothing, or `initial_rubric`."""
    initial_rubric: str = ""
    scale: Scale = "binary"
    protocol: Protocol = Protocol(votes=2)
    initializer: ModelSpec = WRITER
    proposer: ModelSpec = WRITER
    verifiers: Annotated[tuple[ModelSpec, ...], Field(min_length=1)] = (VERIFIER,)
    """They grade the candidates, in the search and in what is exported."""
    judge: ModelSpec | None = None
    """It compares candidates without ranks."""
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.375
    """Share of the prompts for the report alone."""
    seed: int = 7

    @property
    def weights(self) -> Weights:
        """The constants of the objective."""
        return Weights(self.tail_fraction, self.lambda_var, self.mu_diverse, self.pair_confidence_prior)
