"""Reads questions of the generated worlds back from their text alone, as a check of what the metadata say.

Nothing here uses a question's metadata: only the wordings, as expressions, and each world's exact and naive reader.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product

from inspect_ai.dataset import Sample

from truthgym.datasets import cruxes as exchanges
from truthgym.datasets import disclosure as disclosures
from truthgym.datasets import interventions as devices
from truthgym.datasets import testimony as testimonies
from truthgym.datasets import urns as urn_world
from truthgym.datasets.almanac import KINDS
from truthgym.datasets.almanac import WORDINGS as ALMANAC_WORDINGS
from truthgym.datasets.almanac import paths as almanac_paths
from truthgym.datasets.cruxes import WORDINGS as CRUXES_WORDINGS
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.interventions import (
    COUNTERFACTUAL,
    ROOT,
    SEE,
    SET,
    Candidates,
    Part,
    Query,
    learned_paths,
    stated_paths,
)
from truthgym.datasets.loading.generated import logit, probability

NAME = r"[A-Z][a-z]+"
NAMES = rf"{NAME}(?:, {NAME})* and {NAME}"
DAY = r"\d{4}-\d\d-\d\d"
DEVICE = {
    "mechanism": r"[^\n]+?", "deed": r"[^\n.]+", "question": r"[^\n]+?\?", "parts": NAMES, "shares": r"[^\n.]+?",
    "diagrams": r"[^\n.]+?", "counts": r"[^\n.]+?", "part": NAME, "one": NAME, "two": NAME, "target": NAME,
}  # fmt: skip
"""Fields of the wordings of `interventions`."""
Fields = dict[str, str]


@dataclass(frozen=True)
class ReadBack:
    """What a text says of the one question in it."""

    proposition: str
    exact: list[float]
    """Probability before any evidence and after each piece."""
    naive: list[float]


def expression(template: str, fields: Mapping[str, str]) -> re.Pattern[str]:
    """A regular expression of what a template writes. Fields that are not named are whole numbers."""
    seen: set[str] = set()

    def part(literal: str, field: str) -> str:
        if not field:
            return re.escape(literal)
        again = field in seen
        seen.add(field)
        return re.escape(literal) + (f"(?P={field})" if again else f"(?P<{field}>{fields.get(field, '[0-9]+')})")

    return re.compile("".join(part(*found) for found in re.findall(r"([^{]*)(?:\{(\w+)\})?", template)))


cached_expression = cache(lambda template, fields: expression(template, dict(fields)))


def fields_of(template: str, text: str, fields: Mapping[str, str]) -> Fields | None:
    """The fields with which a template wrote the beginning of a text, or None if it did not."""
    match = cached_expression(template, tuple(sorted(fields.items()))).match(text)
    return match.groupdict() if match else None


def pieces_of(lines: Sequence[str], kinds: Mapping[str, str], fields: Mapping[str, str]) -> list[tuple[str, Fields]]:
    """Kind and fields of each line. Every line must be one piece of evidence, and the pieces must be in order."""
    pieces = []
    for line in lines:
        found = [(kind, read) for kind, words in kinds.items() if (read := fields_of(words, line, fields)) is not None]
        [piece] = found
        pieces.append(piece)
    numbers = [int(read["k"]) for _, read in pieces if "k" in read]
    assert numbers == list(range(1, len(numbers) + 1)) or numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    return pieces


def urns(lines: Sequence[str]) -> ReadBack | None:
    for s in urn_world.SURFACES:
        if asked := fields_of(s.asked, lines[0], {}):
            pieces = pieces_of(lines[1:], {"marked": s.marked, "unmarked": s.unmarked}, {})
            first, second = int(asked["first"]), int(asked["second"])
            ratios = [urn_world.log_likelihood_ratio(first, second, kind == "marked") for kind, _ in pieces]
            base = logit(int(asked["base"]) / 100)
            path = [probability(base + math.fsum(ratios[:k])) for k in range(len(ratios) + 1)]
            return ReadBack(s.proposition.format(case=asked["case"]), path, path)
    return None


def testimony(lines: Sequence[str]) -> ReadBack | None:
    fields = {"place": NAME, "person": NAME, "people": NAMES, "traced": r"[^\n]+"}
    for s in testimonies.SURFACES:
        asked = fields_of(s.asked, lines[0], fields)
        if not asked:
            continue
        reports, sources = {"yes": s.yes, "no": s.no}, {"named": s.named, "unnamed": s.unnamed}
        kinds = {f"{a} {b}": f"{reports[a]} {sources[b]}" for a, b in product(reports, sources)} | {"traces": s.traces}
        pieces = pieces_of(lines[1:], kinds, fields)
        people = re.findall(NAME, asked["people"])
        traces = [read["traced"] for kind, read in pieces if kind == "traces"]
        heard = [(kind, read) for kind, read in pieces if kind != "traces"]
        content = [kind.startswith("yes") for kind, _ in heard]
        at_once = [people.index(read["person"]) if kind.endswith(" named") else None for kind, read in heard]
        later = None
        if traces:
            repeated = expression(s.one, fields).finditer(traces[0])
            traced = {int(report["k"]): people.index(report["person"]) for report in repeated}
            later = [traced.get(k, person) for k, person in enumerate(at_once, start=1)]
        rates = testimonies.Rates(*(int(asked[name]) / 100 for name in ("base", "hit", "alarm", "garble")))
        exact = testimonies.posterior_path(rates, len(people), content, at_once, later)
        proposition = s.proposition.format(case=asked["case"], place=asked["place"])
        return ReadBack(proposition, exact, testimonies.naive_path(rates, content, later is not None))
    return None


def disclosure(lines: Sequence[str]) -> ReadBack | None:
    rules = disclosures.RULES
    for s in disclosures.SURFACES:
        asked = fields_of(s.asked, lines[0], {"name": NAME, "known": r"[^.\n]+"})
        if not asked:
            continue
        known = {s.known.format(case=asked["case"], kind=s.kind(rule)): rule for rule in rules}.get(asked["known"])
        if known is None:
            assert asked["known"] == s.unknown.format(case=asked["case"])
        weights = tuple(int(asked[rule]) / 100 if known is None else float(rule == known) for rule in rules)
        base, hit, alarm = (int(asked[name]) / 100 for name in ("base", "hit", "alarm"))
        setting = disclosures.Setting(
            base, hit, alarm, int(asked["trials"]), int(asked["shown"]), int(asked["ahead"]), weights
        )
        pieces = [kind for kind, _ in pieces_of(lines[1:], {"good": s.good, "bad": s.bad, "end": s.end}, {})]
        exhibits, ended = [kind == "good" for kind in pieces if kind != "end"], "end" in pieces
        exact = disclosures.posterior_path(setting, exhibits, ended)
        proposition = s.proposition.format(case=asked["case"], name=asked["name"])
        return ReadBack(proposition, exact, disclosures.naive_path(setting, exhibits, ended))
    return None


def interventions(lines: Sequence[str]) -> ReadBack | None:
    for s in devices.SURFACES:
        fields = DEVICE | {"value": f"{s.on}|{s.off}"}
        for read, template, evidence in ((_stated, s.stated, s.reading), (_learned, s.learned, s.batch)):
            if asked := fields_of(template, lines[0], fields):
                return read(s, asked, fields, [read for _, read in pieces_of(lines[1:], {"": evidence}, fields)])
    return None


def _query(s: devices.Surface, asked: Fields, called: Sequence[str]) -> Query:
    parts, words = range(len(called)), {"deed": asked["deed"], "question": asked["question"]}
    kinds = (SET, SEE, COUNTERFACTUAL)
    queries = (Query(*fields) for fields in product(kinds, parts, (False, True), parts))
    return next(query for query in queries if s.deed(query, called) == words)


def _stated(s: devices.Surface, asked: Fields, fields: Fields, pieces: Sequence[Fields]) -> ReadBack:
    rules = {rule: expression(getattr(s, rule), fields) for rule in (ROOT, *devices.RULES)}
    lines = sorted((m.start(), rule, m) for rule, words in rules.items() for m in words.finditer(asked["mechanism"]))
    called: list[str] = []
    device: list[Part] = []
    for _, rule, line in lines:
        acting = tuple(called.index(line[name]) for name in ("one", "two") if name in line.re.groupindex)
        device.append(Part(rule, acting, int(line["chance"]) / 100))
        called.append(line["part"])
    query = _query(s, asked, called)
    shown = tuple((called.index(piece["part"]), piece["value"] == s.on) for piece in pieces)
    exact, naive = stated_paths(tuple(device), query, shown, int(asked["error"]) / 100)
    return ReadBack(s.statement(query, called, asked["case"]), list(exact), list(naive))


def _learned(s: devices.Surface, asked: Fields, fields: Fields, pieces: Sequence[Fields]) -> ReadBack:
    called = re.findall(NAME, asked["parts"])
    diagrams = []
    for line in asked["diagrams"].split("; "):
        edges = [(called.index(e["one"]), called.index(e["two"])) for e in expression(s.acts, fields).finditer(line)]
        diagrams.append(tuple(tuple(sorted(a for a, b in edges if b == i)) for i in range(len(called))))
    weights = tuple(int(weight) / 100 for weight in re.findall(r"\((\d+)%\)", asked["diagrams"]))
    shares = {name: int(share) / 100 for name, share in re.findall(rf"({NAME}) (\d+)%", asked["shares"])}
    candidates = Candidates(tuple(diagrams), weights, tuple(shares[name] for name in called), int(asked["strength"]))
    query = _query(s, asked, called)
    batches = []
    for piece in pieces:
        counted = [entry.split() for entry in piece["counts"].split("; ")]
        batches.append(tuple(sorted((tuple(name in on for name in called), int(number)) for *on, number in counted)))
    exact, naive = learned_paths(candidates, query, tuple(batches))
    return ReadBack(s.statement(query, called, asked["case"]), list(exact), list(naive))


def almanac(lines: Sequence[str]) -> ReadBack | None:
    fields = {"place": NAME, "first": NAME, "second": NAME, "house": NAME, "past": r"[^\n]+"}
    fields |= dict.fromkeys(("day", "by", "opened"), DAY)
    for wording in ALMANAC_WORDINGS:
        asked = fields_of(wording.template, lines[0], fields)
        if not asked:
            continue
        kind, houses = KINDS[wording.kind], [asked[name] for name in ("first", "second") if name in asked]
        found = [m for words in wording.news.values() for m in expression(words, fields).finditer(asked["past"])]
        past = [m.groupdict() for m in sorted(found, key=lambda match: match.start())]
        news = [read for _, read in pieces_of(lines[1:], wording.news, fields)]
        readings = [
            tuple(houses.index(read[name]) if name == "house" else int(read.get(name, 0)) for name in kind.fields)
            for read in [*past, *news]
        ]
        days = [_day(day) for day in (past[0]["day"], asked["opened"], asked["by"])]
        history, weeks = 1 + (days[1] - days[0]) // 7, 1 + (days[2] - days[0]) // 7
        exact, naive = almanac_paths(kind, {name: int(asked[name]) for name in kind.ranges}, readings, weeks)
        return ReadBack(wording.proposition.format(**asked), exact[history:], naive[history - 1 :])
    return None


def _day(text: str) -> int:
    from datetime import date

    return date.fromisoformat(text).toordinal()


def cruxes(lines: Sequence[str]) -> ReadBack | None:
    for wording in CRUXES_WORDINGS:
        any_of = {"reason": wording.reasons, "word": wording.words}
        fields = {field: "|".join(map(re.escape, values)) for field, values in any_of.items()}
        fields |= {"author": NAME, "place": NAME, "post": r"[^\n]+?"}
        asked = fields_of(wording.asked, lines[0], fields)
        if not asked:
            continue
        shown = expression(wording.shown, fields)
        listed = [(shown.fullmatch(item), item) for item in asked["post"].split("; ")]
        reasons = [match["reason"] if match else item for match, item in listed]
        words = [wording.words.index(match["word"]) if match else None for match, _ in listed]
        turns = pieces_of(lines[1:], wording.turns, fields)
        attacks = [(reasons.index(read["reason"]), int(what == "story")) for what, read in turns[::2]]
        replies = [(exchanges.REPLIES.index(what), wording.words.index(read["word"])) for what, read in turns[1::2]]
        assert all(read["reason"] == reasons[at] for (_, read), (at, _) in zip(turns[1::2], attacks, strict=False))
        numbers, rounds = {name: int(asked[name]) for name in exchanges.STATED}, int(asked["rounds"])
        exact, naive = (exchanges.paths(numbers, words, attacks, replies, rounds, naive=who) for who in (False, True))
        return ReadBack(wording.proposition.format(**asked), exact, naive)
    return None


WORLDS: dict[str, Callable[[Sequence[str]], ReadBack | None]] = {
    world.__name__: world for world in (urns, testimony, disclosure, interventions, almanac, cruxes)
}
"""By world, what reads a question and its pieces of evidence, a text each. None: it is no question of that world."""


@cache
def samples_of(world: str) -> list[Sample]:
    """The first 600 questions of a world, which several tests look at."""
    return list(DOMAINS[world](n=600))
