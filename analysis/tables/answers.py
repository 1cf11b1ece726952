"""Answers of many logs in one table: a row for each answer and number that a scorer gave it."""

import math
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from truthgym.analysis.tables.setups import Places, Run, Runs, bare_name, one_line, runs
from truthgym.datasets.errors import BadInput, did_you_mean
from truthgym.evallog.schema import LoggedSample, LoggedScore, Message, Outcome
from truthgym.scorers.declaration import LEAST_SHARE_SCORED
from truthgym.scorers.statistics.direction import LETTERS

SAMPLE = ("sample_id", "epoch", "event", "split", "target")
"""Columns with the facts of a sample."""
SCORE = ("scorer", "key", "value", "reason", "asked", "repaired", "outcome", "category")
FEATURES = ("characters", "steps", "hedges", "numbers", "confidence", "stop_reason")
"""Columns of `features=True`."""
NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
BELIEFS = {"brier": "belief", "martingale": "posterior"}
"""Keys of the stated belief, by scorer, first the one that is preferred."""
MOST_CATEGORIES = 40
"""Categories above which numbers are taken together in quarters, and texts are refused."""
NO_VALUE = "(no value)"
"""The category of questions that lack the field."""
Rows = Callable[[Run], Iterator[tuple[Any, ...]]]


def answers(
    logs: Places, *, scorer: str = "", features: bool = False, among: Places = (), by: str = ""
) -> pd.DataFrame:
    """The scores of all answers, with `category` by a field. Of passes with the same options the newest counts."""
    evals = runs(logs, among)
    return _answers(evals, scorer, features, by).copy()


@lru_cache(maxsize=3)
def _answers(evals: Runs, scorer: str, features: bool, by: str) -> pd.DataFrame:
    columns = (*SAMPLE, *SCORE, *(FEATURES if features else ()))
    frame = tabulate(evals, columns, lambda run: _rows(run, scorer, features, by))
    if frame.empty:
        raise no_scores(evals, scorer)
    values = frame.pop("category")
    if by:
        labels = categories(values, by, all_fields(evals))
        frame["category"] = values.map(labels)
        frame.attrs["categories"] = list(dict.fromkeys(labels.values()))
    results = [(run, score) for run in evals if run.log.header.results for score in run.log.header.results.scores]
    frame.attrs["higher_is_better"] = {
        run.scorer_label(result): bool(result.metrics["higher_is_better"].value)
        for run, result in results
        if "higher_is_better" in result.metrics
    }
    return frame


def fields_of(sample: Outcome) -> dict[str, Any]:
    """What the questions of a log can be divided by."""
    facts = sample.facts
    return {"target": sample.target, "event": facts.event if facts else str(sample.id)} | (
        msgspec.json.decode(sample.metadata) or {}
    )


def all_fields(evals: Runs) -> list[str]:
    """What the questions of some logs can be divided by, each log's first sample asked."""
    samples = (sample for run in evals for _, sample in islice(run.log.reader.outcomes(), 1))
    return list(dict.fromkeys(name for sample in samples for name in fields_of(sample)))


def value_of(sample: Outcome, by: str) -> str:
    """The value of a field of a sample, as a text on one line; "" if it has none."""
    value = fields_of(sample).get(by)
    if value is None or isinstance(value, str):
        return one_line(value or "")
    return one_line(msgspec.json.encode(value).decode())


def categories(values: Iterable[str], by: str, fields: Collection[str]) -> dict[str, str]:
    """From each value of a field to its category, in the order of tables; of many numbers to their quarter."""
    rows = pd.DataFrame({"value": [value for value in values if value]}, dtype=object)
    rows["number"], rows["label"] = pd.to_numeric(rows["value"], errors="coerce"), rows["value"]
    rows, known, found = rows.sort_values(["number", "value"]), ", ".join(fields), rows["value"].nunique()
    if not found:
        raise BadInput(f"by={by!r}: no question has this field; {did_you_mean(by, list(fields))}they have: {known}")
    if found > MOST_CATEGORIES and rows["number"].isna().any():
        raise BadInput(
            f"by={by!r} has {found} values, too many for categories; give a field with at most {MOST_CATEGORIES}, or "
            f"with numbers. The questions have: {known}"
        )
    if found > MOST_CATEGORIES:
        quarter = rows["number"].groupby(pd.qcut(rows["number"], 4, labels=False, duplicates="drop"))
        rows["label"] = [
            f"{a:.4g} to {b:.4g}" for a, b in zip(*(quarter.transform(end) for end in ("min", "max")), strict=True)
        ]
    return dict(zip(rows["value"], rows["label"], strict=True)) | {"": NO_VALUE}


def no_scores(evals: Runs, scorer: str) -> BadInput:
    name = f"truthgym/{scorer or 'brier'}"
    return BadInput(
        f"{evals.place}: none of the {len(evals)} logs has a score{f' of {name}' * bool(scorer)}; score them with: "
        f"inspect score LOG --scorer {name}"
    )


def tabulate(evals: Runs, columns: Sequence[str], rows: Rows) -> pd.DataFrame:
    """A table of all runs, one run at a time."""
    same: dict[str, str] = {}  # equal texts are one object
    parts: dict[str, list[Any]] = {}
    for run, values in evals.read(lambda run: list(zip(*rows(run), strict=True))):
        of_run = {name: (text,) * len(values[0]) for name, text in run.columns.items()} if values else {}
        for name, column in (of_run | dict(zip(columns, values, strict=bool(values)))).items():
            text = isinstance(column[0], str)
            cells = [same.setdefault(cell, cell) for cell in column] if text else column
            parts.setdefault(name, []).append(np.array(cells, dtype=object if text else None))
    joined = {name: np.concatenate(parts.pop(name)) for name in list(parts)}
    frame = pd.DataFrame({name: pd.Series(column, dtype=column.dtype) for name, column in joined.items()}, copy=False)
    frame.attrs["notes"] = [*evals.notes, *(_tell_apart(frame, evals) if len(frame) else [])]
    return frame


def _tell_apart(frame: pd.DataFrame, evals: Runs) -> list[str]:
    """Give other ids to samples that have the same id but are other questions. Returns a note for each reason."""
    notes = []
    orders: dict[str, dict[str, str]] = {}
    for run in evals:
        orders.setdefault(run.domain, {})[run.columns["eval_id"]] = _order(run)
    shuffled = {log: order for logs in orders.values() if len(set(logs.values())) > 1 for log, order in logs.items()}
    by_order = frame["eval_id"].map(lambda log: shuffled.get(log, ""))
    numbered = (by_order != "") & frame["sample_id"].str.isdigit()
    if numbered.any():
        _rename(frame, numbered, by_order)
        notes.append(
            "Some evals numbered their samples in another random order (`--sample-shuffle`): a number is another "
            "question in each, so they share no question. Give the samples ids."
        )
    if ids := _divided(frame, "domain", "target"):
        verb = "ids stand" if len(ids) > 1 else "id stands"
        notes.append(f"{len(ids)} {verb} for questions with other targets, which count as different questions.")
    if "asked" in frame and (ids := sorted({*_divided(frame, "setup", "asked")})):
        more = f" and {len(ids) - 3} more" if len(ids) > 3 else ""
        notes.append(
            f"The text or the options behind {', '.join(ids[:3])}{more} differ between evals of one setup: they count "
            "as different questions, named with the digest of what was asked."
        )
    return notes


def _order(run: Run) -> str:
    """The order in which an eval asked its questions: the seed with which they were shuffled, if they were."""
    spec = run.log.header.eval
    return spec.eval_id if spec.config.sample_shuffle is True else str(spec.config.sample_shuffle or "")


def _divided(frame: pd.DataFrame, within: str, by: str) -> list[str]:
    """The ids that stand for several values of `by` in one value of `within`; each value gets an id of its own."""
    key = [within, "sample_id"]
    pairs = frame[[*key, by]].drop_duplicates()
    clash = pairs[pairs.duplicated(key)].drop_duplicates(key)
    if len(clash):
        _rename(frame, pd.MultiIndex.from_frame(frame[key]).isin(pd.MultiIndex.from_frame(clash[key])), frame[by])
    return clash["sample_id"].tolist()


def _rename(frame: pd.DataFrame, rows: "pd.Series[bool] | NDArray[np.bool_]", by: "pd.Series[str]") -> None:
    """Add a text in brackets to the ids of rows, and to the events that are only the id."""
    ids = frame.loc[rows, "sample_id"]
    new = ids + " (" + by[rows] + ")"
    frame.loc[rows, "event"] = frame.loc[rows, "event"].where(frame.loc[rows, "event"] != ids, new)
    frame.loc[rows, "sample_id"] = new


def sample_facts(sample: Outcome) -> tuple[str, int, str, str, str]:
    facts, target = sample.facts, sample.target
    return (
        str(sample.id),
        sample.epoch,
        facts.event if facts else str(sample.id),
        facts.split if facts else "",
        target if isinstance(target, str) else ", ".join(target),
    )


def labelled(run: Run, sample: Outcome) -> dict[str, LoggedScore]:
    """The scores of a sample by their scorer with its options. Of several with one label the newest counts."""
    return {run.scorers.get(name, name): score for name, score in (sample.scores or {}).items()}


def why_unread(score: LoggedScore) -> str:
    return str(score.reason or score.details.get("reason") or "the log gives no reason")


def _rows(run: Run, scorer: str, features: bool, by: str) -> Iterator[tuple[Any, ...]]:
    samples: Iterable[tuple[str, Outcome]] = run.log.reader.samples() if features else run.log.reader.outcomes()
    for _, sample in samples:
        facts = sample_facts(sample)
        features_of = _features(sample) if isinstance(sample, LoggedSample) else ()
        asked, category = sample.asked, value_of(sample, by) if by else ""
        for label, score in labelled(run, sample).items():
            more = (asked, score.repaired, _outcome_of_choice(score), category, *features_of)
            if scorer and bare_name(label) != scorer:
                continue
            values = score.value if isinstance(score.value, dict) else {bare_name(label): score.value}
            for name, value in values.items():
                key = one_line(name)
                number = LETTERS.get(value, value) if isinstance(value, str) else value
                if number is None:
                    yield (*facts, label, key, math.nan, why_unread(score), *more)
                elif isinstance(number, int | float):
                    yield (*facts, label, key, float(number), "", *more)


def _outcome_of_choice(score: LoggedScore) -> float:
    """Whether the choice that a belief is about is right, of a question with choices. NaN of any other."""
    outcome = score.details.get("outcome") if b'"right"' in bytes(score.metadata) else None
    return math.nan if outcome is None else float(outcome)


def _features(sample: LoggedSample) -> tuple[int, int, int, int, float, str]:
    from truthgym.scorers.statistics.wording_leak import STYLE

    steps, replies = sample.store.steps, own_replies(sample)
    texts = [part.text or part.reasoning or "" for message in replies for part in message.parts]
    reasoning = sum(step.kind == "reasoning" and step.role == "assistant" for step in steps)
    belief = stated_belief(sample.scores or {})
    return (
        sum(map(len, texts)),
        reasoning if steps else max(len(replies) - 1, 0),
        int(sum(map(STYLE["hedges"], texts))),
        sum(len(NUMBER.findall(text)) for text in texts),
        abs(belief - 0.5),
        sample.stop_reason or "",
    )


def own_replies(sample: LoggedSample) -> list[Message]:
    """What the evaluated model wrote about the question: for a Truthgym solver the trainable messages."""
    steps = sample.store.steps
    own = {step.message_id for step in steps if step.trainable}
    return [message for message in sample.messages if (message.id in own if steps else message.source == "generate")]


def texts(logs: Places, keys: Collection[tuple[str, str, int]]) -> Iterator[tuple[tuple[str, str, int], str]]:
    """The text that the model wrote in some answers, its reasoning included, one answer at a time."""
    for run in runs(logs):
        for _, sample in run.log.reader.samples():
            log, order = run.columns["eval_id"], _order(run)
            plain, *_, target = sample_facts(sample)
            ids = [plain, f"{plain} ({target})", f"{plain} ({order})", f"{plain} ({order}) ({target})"]
            ids += [f"{name} ({sample.asked})" for name in ids]
            for key in [(log, name, sample.epoch) for name in ids if (log, name, sample.epoch) in keys]:
                parts = (part for message in own_replies(sample) for part in message.parts)
                yield key, "\n\n".join(part.text or part.reasoning or "" for part in parts)


def stated_belief(scores: Mapping[str, LoggedScore]) -> float:
    """The belief at the end of an answer, as a scorer read it. NaN if none did."""
    for scorer, key in BELIEFS.items():
        value = scores[scorer].value if scorer in scores else None
        if isinstance(value, dict) and isinstance(value.get(key), int | float):
            return float(value[key])
    return math.nan


UNREAD = f"less than {100 * LEAST_SHARE_SCORED:.0f} % of the answers could be read, and the others may be harder"
"""Why models are not compared."""


class SharedRows(list[dict[Any, Any]]):
    """Rows for `attrs` that nobody changes: pandas deep-copies `attrs` in most operations on a frame."""

    def __deepcopy__(self, memo: dict[int, Any]) -> "SharedRows":
        return self


class Questions(NamedTuple):
    """The values of one score in one setup."""

    question: list[str]
    """Sample ids, sorted: the rows of `values`."""
    values: NDArray[np.float64]
    """Questions x epochs. A second eval of the same questions adds epochs. NaN if unread, or not asked."""
    event: list[str]
    target: list[str]


def by_question(rows: pd.DataFrame) -> Questions:
    """The values of rows of `answers`, which are of one model, setup, scorer and key, sorted by question."""
    values = rows.set_index(["sample_id", "eval_id", "epoch"])["value"].unstack(["eval_id", "epoch"]).sort_index()
    facts = rows.drop_duplicates("sample_id").set_index("sample_id").loc[values.index]
    return Questions(
        values.index.tolist(), values.to_numpy(dtype=float), facts["event"].tolist(), facts["target"].tolist()
    )


def epochs_by_question(rows: pd.DataFrame) -> dict[str, list[float]]:
    return {str(question): values.tolist() for question, values in rows.groupby("sample_id", sort=False)["value"]}


def share_read(rows: pd.DataFrame) -> float:
    """The share of answers that have a number without a repair."""
    return float(_read(rows).mean())


def _read(rows: pd.DataFrame) -> "pd.Series[bool]":
    """Which answers have a number without a repair."""
    read = rows["value"].notna()
    return read & ~rows["repaired"].astype(bool) if "repaired" in rows else read


def read_enough(rows: pd.DataFrame, by: Sequence[str]) -> "pd.Series[bool]":
    """For each row of `answers`, whether enough answers of its group could be read to compare the group with others."""
    share = _read(rows).groupby([rows[name] for name in by]).transform("mean")
    return share >= LEAST_SHARE_SCORED
