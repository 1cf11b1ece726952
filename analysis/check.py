"""Is a file of questions usable, and what can it measure? What was understood, leaks, doubles and detectable effects.

truthgym check FILE
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path

import numpy as np

from truthgym.datasets.domains import LOADERS
from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.domain import Domain
from truthgym.datasets.loading.row_files import FILE_SUFFIXES, read_rows
from truthgym.datasets.question import Question, binary_outcome
from truthgym.scorers.declaration import FEW_QUESTIONS
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.power import planned_mde
from truthgym.scorers.statistics.proper_scores import brier_score
from truthgym.scorers.statistics.wording_leak import Leak, wording_leak

DIFFERENCES = (0.1, 0.3)
"""Standard deviations, between questions, of the difference of two models' Brier scores: much alike, much unlike."""
SHINGLE, ALIKE, COMPARED = 5, 0.8, 1000
"""Characters of a shingle, the share of shingles from which texts are alike, and the most texts that are compared."""
SHOWN = 5
"""Most pairs that are shown."""


@dataclass(frozen=True)
class Checked:
    """What `check` finds in a file."""

    file: str
    domain: str
    ids: list[str]
    fields: dict[str, int]
    """How many rows have each field."""
    notice: str | None
    """What an eval says of the file: columns that it keeps as metadata."""
    questions: list[Question]
    outcomes: list[float]
    """1 for yes, 0 for no, NaN if unknown."""
    base_rate: Estimate
    """Share of yes, clustered by event."""
    crowd: Estimate
    """Brier score of `crowd`."""
    leaks: dict[str, Leak]
    """How well words and style tell the outcome."""
    doubles: list[tuple[str, str]]
    """Pairs of ids, as `alike`: see `similar`."""
    alike: list[tuple[str, str]]
    mde: dict[float, tuple[float, float]]
    """By standard deviation, the detectable difference if questions of an event are independent, or answered alike."""


def check(file: str | Path, domain: str = "questions") -> Checked:
    """Read a file of questions as an eval of the domain would, and say what its questions can tell."""
    loaders = {name: loader for name, loader in LOADERS.items() if isinstance(loader, Domain)}
    one_of("domain", domain, list(loaders))
    if not str(file).endswith(FILE_SUFFIXES):
        raise BadInput(f"{file} cannot be read; give a .jsonl, .csv or .parquet file with one question a row")
    loaded = loaders[domain](source=str(file))
    samples = list(loaded)
    fields = Counter(name for _, row in read_rows(Path(file)) for name, value in row.items() if value is not None)
    ids, parsed = [str(sample.id) for sample in samples], [sample.metadata_as(Question) for sample in samples]
    asked = [s.input if isinstance(s.input, str) else "\n".join(m.text for m in s.input) for s in samples]
    outcomes = [np.nan if (y := binary_outcome(sample.target)) is None else y for sample in samples]
    events = [question.event for question in parsed]
    crowd = [np.nan if question.crowd is None else question.crowd for question in parsed]
    texts = ["\n".join([text, *question.evidence]) for text, question in zip(asked, parsed, strict=True)]
    doubles, alike = ([(ids[i], ids[j]) for i, j in pairs] for pairs in similar(texts))
    leaks = wording_leak(asked, outcomes, events, strata=[str((s.metadata or {}).get("field")) for s in samples])
    base_rate = mean_estimate(outcomes, events, (0, 1))
    of_crowd = mean_estimate(brier_score(crowd, outcomes), events, (0, 1))
    mde = {sd: (planned_mde(sd, events), planned_mde(sd, events, 1.0)) for sd in DIFFERENCES}
    return Checked(
        str(file), domain, ids, dict(fields), loaded.notice, parsed, outcomes, base_rate, of_crowd, leaks, doubles,
        alike, mde,
    )  # fmt: skip


def similar(texts: Sequence[str]) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Pairs of texts that are the same but for case, spaces and signs; and others of the first 1,000 that are alike."""
    from scipy.sparse import csr_array

    plain = [" ".join("".join(c if c.isalnum() else " " for c in text.lower()).split()) for text in texts]
    first: dict[str, int] = {}
    same = [(first[text], i) for i, text in enumerate(plain) if first.setdefault(text, i) < i]
    number: dict[str, int] = {}
    sets = [{text[i : i + SHINGLE] for i in range(max(1, len(text) - SHINGLE + 1))} for text in plain[:COMPARED]]
    cells = np.array([(row, number.setdefault(s, len(number))) for row, text in enumerate(sets) for s in text])
    if not len(cells):
        return [], []
    present = csr_array((np.ones(len(cells), dtype=np.int32), cells.T))
    size = np.array([len(shingles) for shingles in sets])
    both = (present @ present.T).toarray()
    pairs = np.argwhere(np.triu(both >= ALIKE * (size[:, None] + size - both), 1))
    return same, [(int(i), int(j)) for i, j in pairs if plain[i] != plain[j]]


def warnings(checked: Checked) -> list[str]:
    """What makes scores on the questions hard to read, each with its remedy."""
    n, distinct = len(checked.ids), {outcome for outcome in checked.outcomes if not np.isnan(outcome)}
    few = f"{n} questions: with fewer than {FEW_QUESTIONS} only large differences can be seen; add more"
    same = "all outcomes are the same, so a constant answer scores best; add questions with the other outcome"
    problems = [few] * (n < FEW_QUESTIONS) + [same] * (len(distinct) == 1)
    for name, leak in checked.leaks.items():
        if leak.found:
            tell = "words of the questions tell" if name == "words" else "style of the questions tells"
            problems.append(
                f"the {tell} the outcome (AUC {leak.auc:.2f}, chance up to {leak.upper:.2f}), so a model can score "
                "without knowledge; reword them, or check each subject by itself"
            )
    events = dict(zip(checked.ids, (question.event for question in checked.questions), strict=True))
    outcomes = dict(zip(checked.ids, checked.outcomes, strict=True))
    for first, other in checked.doubles[:SHOWN]:
        same = f"{first} and {other} have the same text and different"
        if outcomes[first] + outcomes[other] == 1:  # yes and no
            problems.append(f"{same} outcomes; correct one")
        elif events[first] != events[other]:
            problems.append(f"{same} events; give them one event, or remove one")
    return problems


def report(checked: Checked) -> str:
    """What was found, a line for each thing, and the warnings below."""
    questions, n = checked.questions, len(checked.ids)
    events = Counter(question.event for question in questions)
    largest, most = events.most_common(1)[0]
    forms, split = (Counter(getattr(question, name) for question in questions) for name in ("form", "split"))
    pieces = [len(question.evidence) for question in questions if question.evidence]
    lines = {
        "fields": ", ".join(f"{name} ({count})" if count < n else name for name, count in checked.fields.items()),
        "form": ", ".join(f"{name} {count}" for name, count in forms.items()),
        "split": ", ".join(f"{name} {split[name]}" for name in ("train", "validation", "test")),
        "opened_on": _days([question.opened_on for question in questions]),
        "known_on": _days([question.known_on for question in questions]),
        "evidence": f"{min(pieces)} to {max(pieces)} pieces ({len(pieces)} of {n})" if pieces else "none",
        "events": f"{len(events)}" + (f", the largest is {largest!r} with {most} questions" if most > 1 else ""),
        "share of yes": _mean(checked.base_rate),
        "Brier of crowd": _mean(checked.crowd),
        "wording": ", ".join(
            f"{name} AUC {leak.auc:.2f} (chance {leak.lower:.2f} to {leak.upper:.2f})"
            for name, leak in checked.leaks.items()
            if leak.n and not np.isnan(leak.auc)
        )
        or "too few outcomes or events to tell",
        "same text": _pairs(checked.doubles),
        "alike": _pairs(checked.alike),
    } | {f"mde, sd {sd}": _effect(*mde) for sd, mde in checked.mde.items()}
    width = max(map(len, lines))
    text = [f"{checked.file}: {n} questions, read as truthgym/{checked.domain}", ""]
    text += [*(f"{name:<{width}}  {value}" for name, value in lines.items()), ""]
    text += [f"Note: {checked.notice}"] * bool(checked.notice)
    text += [f"Warning: {warning}." for warning in warnings(checked)]
    return "\n".join(text).rstrip()


def _days(days: Sequence[date | None]) -> str:
    dates = [day for day in days if day]
    return f"{min(dates)} to {max(dates)} ({len(dates)} of {len(days)})" if dates else "none"


def _mean(mean: Estimate) -> str:
    if not mean.n:
        return "none"
    interval = "" if np.isnan(mean.lower) else f" [{max(mean.lower, 0):.3f}, {min(mean.upper, 1):.3f}]"
    return f"{mean.estimate:.3f}{interval} ({mean.n} questions)"


def _pairs(pairs: Sequence[tuple[str, str]]) -> str:
    first = ", ".join(" and ".join(pair) for pair in pairs[:SHOWN])
    return f"{len(pairs)} pair{'s' * (len(pairs) > 1)}: {first}{', ...' * (len(pairs) > SHOWN)}" if pairs else "none"


def _effect(independent: float, together: float) -> str:
    if np.isnan(independent):
        return "too few events"
    more = f"; {together:.3f} if the questions of an event are answered alike" if together > independent + 5e-4 else ""
    return f"Brier difference of {independent:.3f}{more}"
