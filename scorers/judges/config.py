"""The arguments of `qualitative`: checked, with the files that they name read, before any model is asked."""

from collections.abc import Sequence
from typing import Literal, get_args

from truthgym.datasets.errors import BadInput, one_of, whole_number
from truthgym.datasets.rated_trajectories import RatedTrajectory, rated_trajectories
from truthgym.scorers.judges.context import STAGES
from truthgym.scorers.judges.examples import bundled, choose, read_sources
from truthgym.scorers.judges.probes import PROBES
from truthgym.scorers.judges.rating import Settings
from truthgym.scorers.judges.rubric import Rubric, read_rubric

FewShot = Literal["disabled", "static", "permuted"]
LEAST_HELD_OUT = 3
"""Fewer held-out examples of the user's own are none, and the bundled ones are held out instead."""


def checked_settings(
    rubric: str,
    self_answer: object,
    red_team: str,
    few_shot: str,
    shots: int,
    orders: int,
    rounds: int,
    bootstrap_rounds: int,
    bootstrap_from: str | None,
    bootstrap_permuted: object,
    examples: str | None,
    probes: object,
    seed: int,
    cache: object,
) -> Settings:
    """Check the arguments of `qualitative`, which see.

    Raises:
        BadInput: One of them cannot be used.
    """
    flags = {"self_answer": self_answer, "bootstrap_permuted": bootstrap_permuted, "cache": cache}
    for name, flag in flags.items():
        if not isinstance(flag, bool):
            raise BadInput(f"qualitative: {name}={flag!r} cannot be used; write true or false")
    one_of("red_team", red_team, list(STAGES))
    one_of("few_shot", few_shot, get_args(FewShot))
    for name, number in (("shots", shots), ("orders", orders), ("rounds", rounds)):
        whole_number("qualitative", name, number, 1)
    whole_number("qualitative", "bootstrap_rounds", bootstrap_rounds, 0, 6)
    for name, path in (("bootstrap_from", bootstrap_from), ("examples", examples)):
        if path is not None and not (isinstance(path, str) and path.strip()):  # the command line reads YAML
            raise BadInput(f"qualitative: {name}={path!r} is no path; give that of one file or folder")
    if not isinstance(seed, int):
        raise BadInput(f"qualitative: seed={seed!r} cannot be used; give a whole number")
    if bootstrap_rounds and (bootstrap_from is None or few_shot == "disabled"):
        raise BadInput(
            f"bootstrap_rounds={bootstrap_rounds} needs examples to begin with (few_shot=static or permuted) and "
            "trajectories to rate: give a log, a .jsonl file or a folder in bootstrap_from"
        )
    if bootstrap_from is not None and not bootstrap_rounds:
        raise BadInput("bootstrap_from is read in bootstrap_rounds, and there are none; say how many, from 1 to 6")
    chosen, read = _probes(probes), read_rubric(rubric)
    shown, held_out = _examples(read, few_shot, shots, examples, seed)
    return Settings(
        read, bool(self_answer), red_team, few_shot, orders, rounds, bootstrap_rounds, bool(bootstrap_permuted),
        chosen, seed, bool(cache), shown, held_out,
        read_sources(bootstrap_from, None) if bootstrap_from and bootstrap_rounds else [],
    )  # fmt: skip


def _probes(given: object) -> tuple[str, ...]:
    listed = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else [given]
    named = [str(name).strip() for name in listed]
    if named in (["none"], []):
        return ()
    for name in named:
        one_of("probe", name, [*PROBES, "none"])
    return tuple(name for name in PROBES if name in named)


def _examples(
    rubric: Rubric, few_shot: str, shots: int, given: str | None, seed: int
) -> tuple[list[RatedTrajectory], list[RatedTrajectory]]:
    """What is shown, and what is held out: others of the user's own file, or else bundled ones."""
    shown: list[RatedTrajectory] = []
    own_others: Sequence[RatedTrajectory] = []
    if given is not None:
        shown, own_others = choose(read_sources(given, rubric), shots, seed)
    try:
        ours, others = choose(bundled(rubric), min(shots, len(rated_trajectories())) if given else shots, seed)
    except BadInput:
        if given is None and few_shot != "disabled":
            raise
        ours, others = [], []  # the rubric has other qualities than ours: there is nothing of ours to show or hold out
    rated_by_people = given is not None and given.endswith(".jsonl") and len(own_others) >= LEAST_HELD_OUT
    shown = ours if given is None else shown
    return ([] if few_shot == "disabled" else shown), list(own_others if rated_by_people else others)
