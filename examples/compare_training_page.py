"""The page of `compare_training.py`, which calls `page`: means over seeds and paired differences of its figures."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from truthgym.analysis.tables.markdown import markdown, with_interval
from truthgym.scorers.statistics.interval import mean_estimate

Row = Mapping[str, str]
"""An arm's figures by name, as in the .csv file."""
HEADER = {
    "reward": "reward",
    "gain": "gain in its own reward",
    "gold": "Brier",
    "gold_read": "Brier of what was read",
    "distance": "distance",
    "win_rate": "win rate against sft",
    "kl": "KL",
    "reward_per_nat": "reward per nat",
    "entropy": "entropy",
    "form_rate": "form rate",
    "hollow": "hollow replies",
    "sd_between": "between-question SD",
    "peak_gb": "peak GB",
}
"""The columns of the page, by figure."""
PAIRED = ("reward", "gold", "distance")  # their differences between arms are shown, paired by seed
TWINS = ("gold", "distance", "kl", "entropy", "form_rate")  # those of an arm paid by the rubric, with its twin
JUDGES = {"judge_sd": "SD of rewards", "judge_rank": "rank correlation with the Brier score"}
"""Of the reward models, shown where there are two."""
SHARES = ("gold", "gold_read", "distance", "win_rate", "form_rate", "hollow")  # from 0 to 1, also their intervals


def page(rows: Sequence[Row], start: str, rubric: str, settings: Mapping[str, float], link: str) -> str:
    """The page: means over seeds and paired differences, with their intervals.

    Args:
        rows: Figures of each arm and seed.
        start: Name of the model that all arms start from.
        rubric: Suffix of the arms that are paid by a rubric.
        settings: Numbers that the text names.
        link: From the page to the .csv file with the figures of each seed.
    """
    sections = []
    for size in dict.fromkeys(row["size"] for row in rows):
        arms: dict[str, list[Row]] = {}
        for row in rows:
            if row["size"] == size:
                arms.setdefault(row["arm"], []).append(row)
        table = [[arm, str(len(some)), *(_mean(some, key) for key in HEADER)] for arm, some in arms.items()]
        pairs = [(other, key) for other in (start, "sft") if other in arms for key in PAIRED]
        changes = [[arm, *(_mean(some, key, arms[other]) for other, key in pairs)] for arm, some in arms.items()]
        heads = ["arm", *(f"{HEADER[key]} minus {other}" for other, key in pairs)]
        section = f"## {size}\n\n{markdown(['arm', 'seeds', *HEADER.values()], table)}\n{markdown(heads, changes)}"
        twins = [
            [arm, *(_mean(some, key, arms[arm.removesuffix(rubric)]) for key in TWINS)]
            for arm, some in arms.items()
            if arm.endswith(rubric) and arm.removesuffix(rubric) in arms
        ]
        if twins:
            heads = ["arm", *(f"{HEADER[key]} minus the same arm paid by pairs" for key in TWINS)]
            section += f"\n{markdown(heads, twins)}"
            paid = {arm.endswith(rubric): some for arm, some in arms.items() if arm != start}
            judges = [
                [name, *(_mean(paid[by_rubric], key) for key in JUDGES)]
                for name, by_rubric in (("of pairs", False), ("of the rubric", True))
            ]
            section += f"\n{markdown(['reward model', *JUDGES.values()], judges)}"
        sections.append(section)
    return TEXT.format(tables="\n".join(sections), link=link, file=PurePosixPath(link).name, **settings)


def _mean(rows: Sequence[Row], key: str, others: Sequence[Row] = ()) -> str:
    """The mean over seeds of a figure, minus that of another arm with the same seed."""
    before = {row["seed"]: float(row[key] or "nan") for row in others}
    values = [float(row[key] or "nan") - (before.get(row["seed"], math.nan) if others else 0) for row in rows]
    found = mean_estimate(values)
    low, high = (0.0, 1.0) if key in SHARES and not others else (-math.inf, math.inf)
    return with_interval(found.estimate, max(found.lower, low), min(found.upper, high))


TEXT = """# Ways to train a policy, compared

Written by `python examples/compare_training.py`; [{file}]({link}) has the
figures and logs of each seed.

Every arm starts from the same model, is paid by a reward model only, samples the same number of replies to
questions of the train split, and takes as many gradient steps on as many of them, each on average {passes} times. The
reward model was trained on pairs of the start's own answers to other questions, ordered by their Brier scores. No arm
was trained on the Brier score of the held-out questions. The arms with a buffer ask the questions in {rounds} rounds,
{epochs} answers each, with the start as the reference throughout; the others ask all at once. In grpo and rloo the KL
term weighs {beta}. All have one learning rate but those with LoRA, whose rate is {rate} times as high: they differ from
`dpo` in both. The seeds draw questions, replies, pairs and the order of training; all have the same start.

{tables}
Means over seeds, and differences paired by seed, each with its 95 % interval over seeds (Student's t; none with fewer
than three seeds). `reward`: of the reward model, in log-odds. An arm whose name ends in `rubric` is paid by another: a
regression on the spherical scores of the same answers, trained in as many steps; its rewards have another unit and are
not in this column. `gain in its own reward`: over the start, of the model that pays the arm. `Brier`: lower is better;
an answer that cannot be read counts as 1, since the reward model pays for it as for any other. `distance`: of the
belief from the exact posterior, 0 to 1; 1 if it cannot be read. `win rate against sft`: share of held-out questions
answered closer to the exact posterior than by the arm `sft`. (By the Brier score of a single outcome, whoever says 0 or
1 would win more often than whoever says the exact probability.) `KL`: from the start, on the tokens of replies, in nats
a reply, measured on held-out replies. `reward per nat`: what the reward gained over the start, divided by the KL; of
seeds whose KL is above 0 by its interval. `entropy`: of a reply, in nats. `form rate`: share of the answers that could
be read. `hollow replies`: empty, or with an opening that says nothing. `between-question SD`: 0 if every question gets
one answer. `peak GB`: memory of the arm's process, with Python and its libraries; the reward model was made in another
process. `SD of rewards` and `rank correlation`: of a reward model, on the start's answers to held-out questions; a rank
correlation above 0 says that better answers get more.

A reward that rises while the Brier score does not fall is over-optimised: compare the two columns before any other.
"""
