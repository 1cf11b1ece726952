"""Interventions: what happens if a part is set by hand, is seen, or had been set? Generated questions about devices.

The mechanism of a device is stated, and gauges show some of its parts; or one of several diagrams is right, and past
runs speak for some of them. Taking a part that was set for one that is seen to be so is an error, and so is taking a
run that is supposed for a new one. From the text a reader can compute what the metadata has: the exact posterior after
every piece of evidence.
"""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from inspect_ai.dataset import Sample
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.generated import GeneratedQuestion, generate, listed, names, world_sample
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.worlds.networks import (
    COUNTERFACTUAL,
    ROOT,
    SEE,
    SET,
    Candidates,
    Part,
    Query,
    Values,
    learned_paths,
    run,
    stated_paths,
    telling,
)

NONE = "none"


@dataclass(frozen=True)
class Surface:
    """One wording of the problem. `{case}` numbers the question, `{k}` the piece of evidence."""

    name: str
    on: str
    off: str
    root: str
    same: str
    opposite: str
    both: str
    either: str
    stated: str
    """The question about a device whose `{mechanism}` is stated, a sentence for each part."""
    learned: str
    """The question about a device of which `{diagrams}` are given."""
    acts: str
    set: str
    see: str
    question: str
    supposed: str
    proposition: str
    supposition: str
    reading: str
    batch: str

    def words(self, on: bool) -> str:
        """The word for a part that is on or off."""
        return self.on if on else self.off

    def deed(self, query: Query, called: Sequence[str]) -> dict[str, str]:
        """What is done or seen, and what is asked, as the text of a question has it."""
        supposed = query.kind == COUNTERFACTUAL
        part, target = called[query.x], called[query.target]
        now, then = self.words(query.value != supposed), self.words(query.value)
        return {
            "deed": (self.set if query.kind == SET else self.see).format(part=part, value=now),
            "question": (self.supposed if supposed else self.question).format(part=part, target=target, value=then),
        }

    def statement(self, query: Query, called: Sequence[str], case: str) -> str:
        """The proposition."""
        words = self.supposition if query.kind == COUNTERFACTUAL else self.proposition
        value = self.words(query.value)
        return words.format(case=case, part=called[query.x], target=called[query.target], value=value)


PRIOR = (
    "The chance that a PART is ON depends only on which of the PARTs that act on it are ON. For every PART, and every "
    "combination of states of those PARTs, this chance was drawn once and for all, independently of all other chances, "
    "from the Beta distribution with parameters {strength}qs and {strength}q(1 - s). Here s is the share of the PART "
    "itself, and q the probability of the combination if the PARTs that act on it were ON independently of one "
    "another, each with its share as probability; q is 1 if none acts on it. Shares: {shares}. In every RUN a draw of "
    "its own, independent of all other draws, decides with the right chance whether a PART is ON. "
)


def prior(part: str, on: str, run: str) -> str:
    """What a wording says of the chances of a device that is learned, with its words for a part, on, and a run."""
    return PRIOR.replace("PART", part).replace("ON", on).replace("RUN", run)


SURFACES = (
    Surface(
        "machine",
        "on",
        "off",
        "{part} is on in {chance} of 100 runs.",
        "{part} is as {one} is, but the opposite in {chance} of 100 runs.",
        "{part} is on when {one} is off and off when {one} is on, but the other way round in {chance} of 100 runs.",
        "{part} is on when {one} and {two} are both on and off when not, but the other way round in {chance} of 100 "
        "runs.",
        "{part} is on when {one} or {two} or both are on and off when not, but the other way round in {chance} of 100 "
        "runs.",
        "The parts of machine {case} are on or off in each run. {mechanism} What chance decides about one part is "
        "independent of what it decides about the others. In one run {deed}. Which part this is, and which gauges are "
        "then read, was fixed long before. A gauge shows how a part is in that run, and is wrong {error} times in 100, "
        "each gauge independently of the others. {question}",
        "The parts of machine {case}, {parts}, are on or off in each run. One of these diagrams is right, each with "
        "the probability in brackets after it: {diagrams}. "
        + prior("part", "on", "run")
        + "Runs in which nobody touched a part are recorded in batches. Then, in one new run, {deed}. Which part "
        "this is was fixed long before. {question}",
        "{one} acts on {two}",
        "by a plan made long before, a hand sets {part} to {value}, whatever the other parts do, and the other "
        "parts work as in any run",
        "nobody touches a part, and {part} is known for certain to be {value}",
        "Is {target} on in that run?",
        "Suppose that in that run {part} had been set to {value} by hand, and that all that chance decides, the "
        "failures of rules included, had come out as it did. Would {target} have been on?",
        "{target} of machine {case} is on in that run.",
        "{target} of machine {case} would have been on in that run if {part} had been set to {value}.",
        "Machine {case}, gauge {k}: {part} is {value}.",
        "Machine {case}, batch {k}, {count} runs by the parts that were on: {counts}.",
    ),
    Surface(
        "canal",
        "open",
        "shut",
        "{part} stands open on {chance} days of 100.",
        "{part} stands as {one} does; on {chance} days of 100 it stands the other way.",
        "{part} stands open if {one} is shut, and shut if {one} is open; on {chance} days of 100 it is the reverse.",
        "{part} stands open if both {one} and {two} are open, else shut; on {chance} days of 100 it is the reverse.",
        "{part} stands open if at least one of {one} and {two} is open, else shut; on {chance} days of 100 it is the "
        "reverse.",
        "On canal {case} each gate is open or shut for a day. {mechanism} Chance strikes at each gate independently of "
        "the others. On the day of this question {deed}. The almanac had named the gate, and the gates of which "
        "boatmen bring word. Boatmen tell how a gate stands on that day, and each of them errs in {error} cases of "
        "100, independently of the others. {question}",
        "On canal {case} the gates {parts} are open or shut for a day. One of these plans is true, each "
        "with the probability in brackets after it: {diagrams}. "
        + prior("gate", "open", "day")
        + "The log has days on which all gates were left alone. On a later day {deed}. "
        "The almanac had named the gate. {question}",
        "{one} acts on {two}",
        "the keeper, as the almanac orders, makes {part} stand {value} by hand, whatever the other gates do, and the "
        "other gates work as on any day",
        "all gates are left alone, and it is certain that {part} stands {value}",
        "Does {target} stand open on that day?",
        "Had the keeper made {part} stand {value} by hand on that day, with every whim of chance at every gate the "
        "same, would {target} have stood open?",
        "On that day {target} on canal {case} stands open.",
        "With {part} made to stand {value}, {target} on canal {case} would have stood open on that day.",
        "Canal {case}, boatman {k} tells that {part} is {value}.",
        "Canal {case}, log page {k}, {count} days by the gates that stood open: {counts}.",
    ),
    Surface(
        "beacons",
        "lit",
        "dark",
        "In {chance} of 100 nights {part} is lit.",
        "{part} copies {one}; in {chance} of 100 nights it fails to, and does the contrary.",
        "{part} is lit if {one} is dark and dark if {one} is lit; in {chance} of 100 nights it does the contrary.",
        "{part} is lit if {one} and {two} are lit, both of them, or else dark; in {chance} of 100 nights it does the "
        "contrary.",
        "{part} is lit if {one} is lit or {two} is or both are, or else dark; in {chance} of 100 nights it does the "
        "contrary.",
        "Chain {case} is a chain of beacons, each lit or dark for a night. {mechanism} Every beacon has luck of its "
        "own, independent of that of the others. In the night in question {deed}. The beacon was drawn by lot "
        "beforehand, and so were those that scouts report. A scout reports how a beacon is that night, and mistakes it "
        "{error} times in 100, independently of the others. {question}",
        "Chain {case} has the beacons {parts}, each lit or dark for a night. Of these accounts one is right, "
        "each with the probability in brackets after it: {diagrams}. "
        + prior("beacon", "lit", "night")
        + "A chronicle counts nights in which no stranger came near. In a night after those {deed}. The beacon "
        "was drawn by lot beforehand. {question}",
        "{one} acts on {two}",
        "a stranger whom a lot has told so keeps {part} {value}, whatever the other beacons do, and they work as in "
        "any night",
        "no stranger comes near, and {part} is {value} beyond doubt",
        "Is {target} lit that night?",
        "Imagine that night again, with the luck of every beacon unchanged, but a stranger keeps {part} {value}. Would "
        "{target} have been lit?",
        "{target} in chain {case} is lit that night.",
        "If a stranger had kept {part} {value}, {target} in chain {case} would have been lit that night.",
        "Chain {case}, scout {k}: {part} is {value}.",
        "Chain {case}, chapter {k}, {count} nights by the beacons that were lit: {counts}.",
    ),
    Surface(
        "genes",
        "active",
        "silent",
        "{part} is active in {chance}% of cells.",
        "{part} is active where {one} is and silent where {one} is, except in {chance}% of cells, where it is "
        "inverted.",
        "{part} is active where {one} is silent and silent where {one} is active, except in {chance}% of cells, where "
        "it is inverted.",
        "{part} is active where {one} and {two} are both active and silent elsewhere, except in {chance}% of cells, "
        "where it is inverted.",
        "{part} is active where {one} or {two} is active, or both, and silent elsewhere, except in {chance}% of cells, "
        "where it is inverted.",
        "In strain {case} every gene is active or silent in a cell. {mechanism} These accidents are independent from "
        "gene to gene. In a cell under study {deed}. The protocol had settled which gene, and which genes are assayed. "
        "An assay tells the state of a gene in that cell, and has it wrong with probability {error}%, each "
        "independently of the others. {question}",
        "In strain {case} the genes {parts} are active or silent in a cell. The textbooks differ, and one is right, "
        "each with the probability in brackets after what it says: {diagrams}. "
        + prior("gene", "active", "cell")
        + "Untreated cells were counted on several plates. Now there is one more cell, in which "
        "{deed}. The protocol had settled which gene. {question}",
        "{one} acts on {two}",
        "a drug that the protocol prescribes makes {part} {value}, whatever the other genes do, and the other genes "
        "work as in any cell",
        "no drug is given, and {part} is known for certain to be {value}",
        "Is {target} active in that cell?",
        "If a drug had made {part} {value} in that cell, and every accident had been the same, would {target} have "
        "been active?",
        "In that cell of strain {case}, {target} is active.",
        "In that cell of strain {case}, {target} would have been active if a drug had made {part} {value}.",
        "Strain {case}, assay {k}: {part} {value}.",
        "Strain {case}, plate {k}, {count} cells by their active genes: {counts}.",
    ),
)


ROOTS, MISHAPS, ERRORS = (20, 80), (3, 15), (15, 30)
"""Ranges of percents from which each question draws how often a root is on, a rule fails and a gauge is wrong."""
SHARES, STRENGTHS = (30, 70), (2, 4)
"""The same for the prior means of parts, and the runs that the prior is worth."""
RULES = ("same", "opposite", "both", "either")
LEARNED_PARTS, BATCHES = 4, 4
READERS = ("posterior", "naive")
ALIKE: tuple[dict[str, str], ...] = ({"y": "x"}, {"z": "x", "y": "z"}, {"x": "z", "y": "x"})
"""What may act on x, y and a third part z, if to set x has the same effect on y as to see it. A fourth part is acted on
by one of them, the same in all diagrams of a question."""
UNLIKE: tuple[dict[str, str], ...] = (
    {"x": "y"}, {"z": "y", "x": "z"}, {"y": "z", "x": "y"}, {"x": "z", "y": "z"}, {"x": "z", "y": "zx"},
)  # fmt: skip
"""The same, if it has another one."""


class InterventionsQuestion(GeneratedQuestion, frozen=True):
    """A question with what it was generated from. Parts are numbered from 0, in causal order if it is stated."""

    kind: str
    """"set", "see" or "counterfactual"."""
    learned: bool
    x: int
    value: bool
    """What x was set to, is seen to be, or is supposed to have been set to."""
    target: int
    rules: list[str] = []  # noqa: RUF012
    """Of a stated mechanism, as are the next four."""
    parents: list[list[int]] = []  # noqa: RUF012
    chances: list[int] = []  # noqa: RUF012
    readings: list[tuple[int, bool]] = []  # noqa: RUF012
    error: int = 0
    diagrams: list[list[list[int]]] = []  # noqa: RUF012
    """Of a device that is learned, as are the next four."""
    weights: list[int] = []  # noqa: RUF012
    shares: list[int] = []  # noqa: RUF012
    strength: int = 0
    batches: list[dict[str, int]] = []  # noqa: RUF012
    """Number of runs by values, such as "0110"."""


Kinds = Literal["all", "set", "see", "counterfactual"]


@validate_call
def interventions(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    parts: Annotated[int, Field(ge=4, le=6)] = 5,
    readings: Annotated[int, Field(ge=1, le=4)] = 3,
    kind: Kinds = "all",
    learned: Annotated[float, Field(ge=0, le=1)] = 0.4,
    cases: Annotated[int, Field(ge=4, le=1000)] = 200,
) -> Questions:
    """Generate questions about a device of which one part is set, seen, or supposed to have been set.

    Question i depends only on the seed, i and the difficulty: a longer set begins with the shorter one.

    Args:
        n: Number of questions, all of the split.
        seed: Another seed gives other questions.
        split: "train", "validation", "test" or "all". Every question is its own event.
        parts: Parts of a device whose mechanism is stated, 4 to 6.
        readings: Gauges that are read there, 1 to 4 and at most `parts` - 2: a piece of evidence each.
        kind: "set", "see" or "counterfactual", or "all" of them.
        learned: Probability that a device has candidate diagrams and past runs in place of a mechanism, 0 to 1, rounded
            to a whole percent. It has four parts. Must be 0 with `kind="counterfactual"`.
        cases: Past runs, 4 to 1000, in four batches: a piece of evidence each.

    Raises:
        BadInput: An argument outside its range, or an unknown split.
    """
    if readings > parts - 2:
        raise BadInput(f"interventions: readings={readings} is more than parts - 2 = {parts - 2}; lower it")
    if kind == COUNTERFACTUAL and learned:
        raise BadInput(
            f"interventions: learned={learned:g} cannot be used with kind=counterfactual, which needs a stated "
            "mechanism; give learned=0"
        )
    share = round(100 * learned)
    difficulty = f"parts{parts}-readings{readings}-{kind}-learned{share}-cases{cases}"

    def make(i: int) -> Sample:
        rng = random.Random(f"interventions/{seed}/{i}/{difficulty}")
        surface = rng.choice(SURFACES)
        identity = f"interventions-{i:05d}-seed{seed}-{difficulty}"
        if rng.random() < share / 100:
            drawn = _draw_learned(rng, surface, 1000 + i, kind, cases)
        else:
            drawn = _draw_stated(rng, surface, 1000 + i, kind, parts, readings)
        asked, truth, fields = drawn
        base_rate = fields["posterior"][0]
        return world_sample(
            InterventionsQuestion, identity, asked, truth, surface=surface.name, base_rate=base_rate, **fields
        )

    return generate("interventions", make, n, split)


def _draw_stated(
    rng: random.Random, surface: Surface, case: int, kind: str, parts: int, readings: int
) -> tuple[str, bool, dict[str, Any]]:
    """The question's text, its outcome, and fields of its metadata."""
    called = names(rng, parts)
    kind = rng.choices((SET, SEE, COUNTERFACTUAL), (3, 1, 2))[0] if kind == "all" else kind
    target, device = parts - 1, [Part(ROOT, (), rng.randint(*ROOTS) / 100)]
    choices: list[int] = []
    while not choices:
        del device[1:]
        for i in range(1, parts):
            parents = tuple(sorted(rng.sample(range(i), min(i, rng.choice((1, 2, 2))))))
            rule = rng.choice(RULES[2:] if len(parents) == 2 else RULES[:2])
            device.append(Part(rule, parents, rng.randint(*MISHAPS) / 100))
        choices = telling(tuple(device), kind)
    x, value = rng.choice(choices), rng.random() < 0.5
    happens = [rng.random() < part.chance for part in device]
    values = run(tuple(device), happens, {x: value} if kind == SET else {})
    value = values[x] if kind != COUNTERFACTUAL else not values[x]
    final = run(tuple(device), happens, {x: value}) if kind == COUNTERFACTUAL else values
    read = rng.sample([i for i in range(parts - 1) if i != x], readings)
    if kind == COUNTERFACTUAL:
        read[rng.randrange(readings)] = target
    error = rng.randint(*ERRORS)
    shown = [(i, values[i] != (rng.random() < error / 100)) for i in read]

    query = Query(kind, x, value, target)
    lines = [
        getattr(surface, part.rule).format(
            part=name, chance=round(100 * part.chance),
            **dict(zip(("one", "two"), (called[j] for j in part.parents), strict=False)),
        )
        for name, part in zip(called, device, strict=True)
    ]  # fmt: skip
    asked = surface.stated.format(case=case, mechanism=" ".join(lines), error=error, **surface.deed(query, called))
    evidence = [
        surface.reading.format(case=case, k=k, part=called[i], value=surface.words(on))
        for k, (i, on) in enumerate(shown, start=1)
    ]
    fields: dict[str, Any] = {
        "proposition": surface.statement(query, called, str(case)),
        "evidence": evidence,
        **dict(zip(READERS, stated_paths(tuple(device), query, tuple(shown), error / 100), strict=True)),
        "kind": kind, "learned": False, "x": x, "value": value, "target": target,
        "rules": [part.rule for part in device],
        "parents": [list(part.parents) for part in device],
        "chances": [round(100 * part.chance) for part in device],
        "readings": shown, "error": error,
    }  # fmt: skip
    return asked, final[target], fields


def _draw_learned(
    rng: random.Random, surface: Surface, case: int, kind: str, cases: int
) -> tuple[str, bool, dict[str, Any]]:
    """The question's text, its outcome, and fields of its metadata."""
    called = names(rng, LEARNED_PARTS)
    roles = dict(zip("xyzw", rng.sample(range(LEARNED_PARTS), LEARNED_PARTS), strict=True))
    extra = rng.choice("xyz")
    shapes = [shape | {"w": extra} for shape in (rng.choice(ALIKE), *rng.sample(UNLIKE, 2))]
    rng.shuffle(shapes)
    diagrams = tuple(
        tuple(tuple(sorted(roles[other] for other in diagram.get(role, "")))
              for role in sorted(roles, key=lambda role: roles[role]))
        for diagram in shapes
    )  # fmt: skip
    first = rng.randrange(4, 13)
    second = rng.randrange(4, 20 - first - 3)
    weights = [5 * first, 5 * second, 100 - 5 * (first + second)]
    shares = [rng.randint(*SHARES) for _ in called]
    strength = rng.randint(*STRENGTHS)
    candidates = Candidates(diagrams, tuple(w / 100 for w in weights), tuple(s / 100 for s in shares), strength)
    [right] = rng.choices(diagrams, weights)
    chances: dict[tuple[int, Values], float] = {}

    def draw(fixed: dict[int, bool]) -> Values:
        values: dict[int, bool] = {}
        while len(values) < LEARNED_PARTS:
            for i, parents in enumerate(right):
                if i not in values and all(parent in values for parent in parents):
                    setting = tuple(values[parent] for parent in parents)
                    if (i, setting) not in chances:
                        chances[i, setting] = rng.betavariate(*candidates.prior(right, i, setting))
                    values[i] = fixed.get(i, rng.random() < chances[i, setting])
        return tuple(values[i] for i in range(LEARNED_PARTS))

    sizes = [cases * (k + 1) // BATCHES - cases * k // BATCHES for k in range(BATCHES)]
    batches = [Counter(draw({}) for _ in range(size)) for size in sizes]
    kind = rng.choices((SET, SEE), (4, 1))[0] if kind == "all" else kind
    x, target = roles["x"], roles["y"]
    final = draw({x: rng.random() < 0.5} if kind == SET else {})
    query = Query(kind, x, final[x], target)

    lines = [
        f"{', '.join(surface.acts.format(one=called[j], two=called[i]) for i, js in enumerate(diagram) for j in js)} "
        f"({weight}%)"
        for diagram, weight in zip(diagrams, weights, strict=True)
    ]
    asked = surface.learned.format(
        case=case, parts=listed(called), diagrams="; ".join(lines), on=surface.on, strength=strength,
        shares=", ".join(f"{name} {share}%" for name, share in zip(called, shares, strict=True)),
        **surface.deed(query, called),
    )  # fmt: skip
    evidence = [
        surface.batch.format(case=case, k=k, count=batch.total(), counts="; ".join(
            f"{' '.join(name for name, on in zip(called, values, strict=True) if on) or NONE} {batch[values]}"
            for values in sorted(batch)
        ))
        for k, batch in enumerate(batches, start=1)
    ]  # fmt: skip
    fields: dict[str, Any] = {
        "proposition": surface.statement(query, called, str(case)),
        "evidence": evidence,
        **dict(zip(READERS, learned_paths(candidates, query, _ordered(batches)), strict=True)),
        "kind": kind, "learned": True, "x": x, "value": final[x], "target": target,
        "diagrams": [[list(parents) for parents in diagram] for diagram in diagrams],
        "weights": weights, "shares": shares, "strength": strength,
        "batches": [{"".join(str(int(on)) for on in values): batch[values] for values in batch} for batch in batches],
    }  # fmt: skip
    return asked, final[target], fields


def _ordered(batches: Sequence[Mapping[Values, int]]) -> tuple[tuple[tuple[Values, int], ...], ...]:
    return tuple(tuple(sorted(batch.items())) for batch in batches)
