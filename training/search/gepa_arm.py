"""The same search by the library `gepa`, reflective evolution on a Pareto frontier: a further arm (extra `search`)."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from anyio import from_thread, to_thread

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.rubric import Rubric
from truthgym.training.search.data import Prompt
from truthgym.training.search.engine import Search
from truthgym.training.search.mutation import MODES

Batch = Any
"""gepa's EvaluationBatch."""
RUBRIC = "rubric"
"""gepa's name for the one text that it changes."""


async def gepa_search(search: Search) -> Rubric:
    """The best rubric that gepa finds with as many offspring as the evolutionary search may make.

    It proposes by the same proposer in the six modes in turn, and scores by the same objective, prompt by prompt. It
    keeps no checkpoint of its own: a repeated command reads the scores of the first one, and gives the same result.
    """
    try:
        from gepa.api import optimize
        from gepa.core.adapter import EvaluationBatch
    except ImportError:
        raise BadInput('mode=gepa needs gepa; pip install "truthgym[search]", or take another mode') from None
    await search.initialise()
    config, prompts = search.config, list(search.prompts)
    made = 0

    def read(text: str) -> Rubric:
        return Rubric.model_validate_json(text)

    class Adapter:
        propose_new_texts = None

        def evaluate(self, batch: list[Prompt], candidate: dict[str, str], capture_traces: bool = False) -> Batch:
            found = from_thread.run(search.measure, read(candidate[RUBRIC]), batch)
            totals = [float(one) for one in found.by_prompt]
            return EvaluationBatch(outputs=totals, scores=totals, trajectories=list(batch) if capture_traces else None)

        def make_reflective_dataset(
            self, candidate: dict[str, str], batch: Batch, components: list[str]
        ) -> dict[str, list[dict[str, Any]]]:
            worst = min(range(len(batch.scores)), key=lambda i: batch.scores[i])
            return {RUBRIC: [{"prompt_id": batch.trajectories[worst].prompt_id}]}

    def propose(
        candidate: dict[str, str],
        reflective_dataset: Mapping[str, Sequence[Mapping[str, Any]]],
        components_to_update: list[str],
    ) -> dict[str, str]:
        nonlocal made
        parent, made = read(candidate[RUBRIC]), made + 1
        prompt = next(one for one in prompts if one.prompt_id == reflective_dataset[RUBRIC][0]["prompt_id"])
        child = from_thread.run(search.child, parent, MODES[made % len(MODES)], prompt)
        return {RUBRIC: json.dumps((child if isinstance(child, Rubric) else parent).model_dump(mode="json"))}

    offspring = config.generations * config.mutations
    batch = min(config.batch_size, len(prompts))

    def optimise() -> Rubric:
        result: Any = optimize(
            seed_candidate={RUBRIC: json.dumps(search.best.model_dump(mode="json"))},
            trainset=prompts,
            valset=prompts,
            adapter=Adapter(),
            custom_candidate_proposer=propose,
            reflection_minibatch_size=batch,
            perfect_score=2.0,
            max_metric_calls=len(prompts) + offspring * (2 * batch + len(prompts)),
            stop_callbacks=lambda _: made >= offspring,
            acceptance_criterion="improvement_or_equal",
            logger=_Silent(),
            seed=config.seed,
        )
        return read(result.best_candidate[RUBRIC])

    return await to_thread.run_sync(optimise)


class _Silent:
    def log(self, message: str) -> None: ...
