"""What the objective of a rubric search says of rubrics whose truth is known, under judges that it was not made for.

python -m studies.speed.rubric_search judges            a minute; the table in docs/rubric_search.md
python -m studies.speed.rubric_search searches [SEEDS]  searches with and without a signal; about a minute each
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from truthgym.models.agents.quality_markers import LENGTH, TOPICS
from truthgym.scorers.rubrics.reward import ModelSpec
from truthgym.scorers.rubrics.rubric import Criterion, Rubric
from truthgym.training.files import markdown_table
from truthgym.training.search.candidates import TRUE_WEIGHTS, Prompt, Prompts, bundled, make_labels, split_prompts
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.engine import Search
from truthgym.training.search.objective import Objective, objective
from truthgym.training.search.rubric_scores import Scores

JUDGES = {
    "as in the search": {"discernment": 0.25, "noise": 0.1, "length": 0.1},
    "exact": {"discernment": 1.0},
    "noisy": {"discernment": 0.25, "noise": 0.4},
    "coarse: 10, 50 or 90 %": {"discernment": 0.25, "noise": 0.1, "coarse": 0.4},
    "likes length": {"discernment": 0.25, "noise": 0.1, "length": 0.5},
    "lazy: a number fixed by the text": {"arbitrary": 1.0},
}


def rubric(name: str, texts: Sequence[str], weights: Sequence[float] | None = None) -> Rubric:
    weights = weights or [1.0] * len(texts)
    criteria = (
        Criterion(id=f"c{i}", text=text, weight=w) for i, (text, w) in enumerate(zip(texts, weights, strict=True))
    )
    return Rubric(name=name, criteria=tuple(criteria))


RUBRICS = (
    rubric("true", [f"Names {topic}." for topic in TOPICS[:5]], TRUE_WEIGHTS[:5]),
    rubric("true, with decoys", [f"Names {topic}." for topic in TOPICS]),
    rubric("decoys", [f"Names {topic}." for topic in TOPICS[5:]]),
    rubric("impression", ["Is a good answer to the question."]),
    rubric("length", [f"Answers {LENGTH}."]),
)


def measured(rubrics: Sequence[Rubric], prompts: Sequence[Prompt], judge: ModelSpec) -> list[Objective]:
    """The objective of each rubric with one judge."""
    config = SearchConfig()

    async def measure() -> list[Objective]:
        labels, _ = await make_labels(prompts, None, Path("none"))
        scores = Scores(config.protocol, [judge.load()], labels)
        return [objective(await scores.score(rubric, prompts), config.weights) for rubric in rubrics]

    return asyncio.run(measure())


def judges(prompts: int = 16) -> str:
    """The objective of five rubrics under six judges, as Markdown."""
    data = bundled(prompts=prompts).prompts
    rows = []
    for name, arguments in JUDGES.items():
        objectives = measured(RUBRICS, data, ModelSpec(model="reference/judge", model_args=arguments))
        rows.append((name, *(f"{value.total.estimate:.2f} ({value.tail_acc:.2f})" for value in objectives)))
    return markdown_table(("judge", *(rubric.name for rubric in RUBRICS)), rows)


def searches(seeds: int = 3, generations: int = 6, prompts: int = 16, mutations: int = 6) -> str:
    """What each kind of search finds on held-out prompts with as many offspring, with and without a signal."""
    rows = []
    for signal in (True, False):
        data = bundled(prompts=prompts, signal=signal)
        for mode in ("evolutionary", "iterative"):
            results = [_search(data, mode, seed, generations, mutations) for seed in range(seeds)]
            inside, outside, gain = (np.array(column) for column in zip(*results, strict=True))
            error = gain.std(ddof=1) / seeds**0.5 if seeds > 1 else np.nan
            rows.append((
                "planted" if signal else "none", mode, f"{inside.mean():.3f}", f"{outside.mean():.3f}",
                f"{gain.mean():.3f} ± {error:.3f}",
            ))  # fmt: skip
    head = ("signal", "search", "TailAcc, searched", "TailAcc, held out", "objective held out minus the first rubric's")
    return markdown_table(head, rows)


def _search(data: Prompts, mode: str, seed: int, generations: int, mutations: int) -> tuple[float, float, float]:
    searched, held_out = split_prompts(data, 0.375)
    iterative = mode == "iterative"
    config = SearchConfig.model_validate({
        "mode": mode, "seed": seed, "patience": 1000, "mutations": mutations,
        "generations": generations * (mutations if iterative else 1),
        "initializer": {"model": "reference/proposer", "model_args": {"seed": seed}},
        "proposer": {"model": "reference/proposer", "model_args": {"seed": seed}},
    })  # fmt: skip

    async def run() -> tuple[float, float, float]:
        labels, _ = await make_labels(data.prompts, None, Path("none"))
        scores = Scores(config.protocol, [verifier.load() for verifier in config.verifiers], labels)
        search = Search(config, searched, scores)
        best = await search.run()
        first = await search.first()
        inside, outside = await search.measure(best), await search.measure(best, held_out)
        return (
            inside.tail_acc,
            outside.tail_acc,
            outside.total.estimate - (await search.measure(first, held_out)).total.estimate,
        )

    return asyncio.run(run())


if __name__ == "__main__":
    verb, numbers = sys.argv[1], [int(number) for number in sys.argv[2:]]
    print(judges(*numbers) if verb == "judges" else searches(*numbers))
