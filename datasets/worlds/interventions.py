"""The wordings of `interventions`: machines, canals, beacons and genes, whose parts are on or off."""

from collections.abc import Sequence
from dataclasses import dataclass

from truthgym.datasets.worlds.networks import (
    COUNTERFACTUAL,
    SET,
    Query,
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
