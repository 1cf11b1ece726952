"""The first page of the site: for each domain a sentence, a plot and the models' own words; then what to distrust."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import pandas as pd
from markupsafe import Markup

from truthgym.analysis import leaderboard
from truthgym.analysis.performance import REASONS
from truthgym.analysis.site.page import TEMPLATES
from truthgym.analysis.tables.answers import labelled, own_replies
from truthgym.analysis.tables.by_category import in_words
from truthgym.analysis.tables.markdown import UNPRINTABLE, counted, with_interval
from truthgym.analysis.tables.score_names import ordered_keys
from truthgym.analysis.tables.setups import Run, Runs, bare_name
from truthgym.datasets.question import binary_outcome
from truthgym.evallog.schema import LoggedScore, Outcome
from truthgym.scorers.statistics.direction import Best, direction, numbers
from truthgym.scorers.statistics.interval import decimals
from truthgym.tasks.domain_task import SCORER_BY_NAME

ASKED, WORDS, ALL_WORDS = 200, 240, 3000
"""Characters of a question, and of what a model said: at once, and after a click."""
MOST_ROWS = 14
"""Rows of a plot; the others are shown by a click."""
WEAK = ("unread", "failed", "few_questions")
"""Flags of estimates that are not relied on, the weightiest first."""
SIDES = {
    "lowest": {"below": "better", "above": "worse"},
    "highest": {"above": "better", "below": "worse"},
    "": {"below": "lower", "above": "higher"},
}
"""How a verdict is said of a score with a reference value, by its better end."""
KINDS = ("Worst", "Typical", "Best")


Card = dict[str, Any]
"""A conversation, as a page shows it."""


def overview(
    evals: Runs,
    frames: Mapping[str, pd.DataFrame],
    pages: Sequence[tuple[str, str, str]],
    refusals: Sequence[str],
    links: Mapping[str, str],
    local: bool,
) -> Markup:
    """The first page as HTML, of what each analysis loaded, with its pages and the addresses of logs in a viewer."""
    models, setups = ({getattr(run, part) for run in evals} for part in ("model", "setup"))
    results = [run.log.header.results for run in evals]
    answers = sum(result.completed_samples for result in results if result)
    counts = (len(evals), "run"), (len(models), "model"), (len(setups), "setup"), (answers, "answer")
    shown, distrust = _domains(evals, frames, links) if "performance" in frames else ([], [])
    html = TEMPLATES.get_template("overview.html").render(
        counts="{} of {} in {}, with {}.".format(*(counted(*count) for count in counts)),
        domains=shown,
        distrust=[*evals.omissions, *distrust],
        pages=pages,
        refusals=refusals,
        local=local,
    )
    return Markup(html)


def _domains(
    evals: Runs, frames: Mapping[str, pd.DataFrame], links: Mapping[str, str]
) -> tuple[list[dict[str, Any]], list[str]]:
    """What the template shows of each domain, and what to distrust of their estimates."""
    estimates, boards, cells = frames["performance"], frames.get("leaderboard"), frames.get("categories")
    flags = [set(text.split(", ")) for text in estimates["flags"]]
    weak = [next((key for key in WEAK if key in own), "") for own in flags]
    frame = estimates.assign(bare=estimates["scorer"].map(bare_name), weak=weak, row=range(len(estimates)))
    frame.loc[frame["score"].isna() & (frame["weak"] == ""), "weak"] = "unread"
    parts = [_headline(part) for _, part in frame.groupby("domain", sort=False)]
    parts.sort(key=lambda rows: (-int((rows["weak"] == "").sum()), -len(rows)))
    cards = dict(_conversations(evals, pd.concat(parts), links))
    return [_domain(rows, frame, boards, cards) | _kinds(rows, cells) for rows in parts], list(_distrust(frame))


def _headline(part: pd.DataFrame) -> pd.DataFrame:
    """The rows of the scorer that most runs of a domain can be relied on for, best first."""
    order = list(SCORER_BY_NAME)
    place = {name: order.index(name) if name in order else len(order) for name in part["bare"].unique()}
    solid = part[part["weak"] == ""].groupby(["bare", "figure"]).size()
    sizes = part.groupby(["bare", "figure"]).size()
    bare, figure = min(sizes.index, key=lambda name: (-solid.get(name, 0), -sizes[name], place[name[0]]))
    rows = part[(part["bare"] == bare) & (part["figure"] == figure)]
    best = rows["best"].iloc[0]
    badness = rows["score"].abs() if best == "zero" else rows["score"] * (1.0 if best == "lowest" else -1.0)
    rows = pd.DataFrame(rows.loc[badness.sort_values(kind="stable").index])
    return rows.assign(name=_names(rows))


def _domain(
    rows: pd.DataFrame, every: pd.DataFrame, boards: pd.DataFrame | None, cards: Mapping[int, Sequence[Card]]
) -> dict[str, Any]:
    first = rows.iloc[0]
    declared = SCORER_BY_NAME.get(first["bare"])
    solid = rows[rows["weak"] == ""]
    shown = (solid if len(solid) else rows).head(MOST_ROWS)
    rest = rows.drop(shown.index)
    reference = declared.reference if declared else None
    better = declared.better.replace("`", "") if declared else ""
    three = [card for row in shown["row"] for card in cards.get(row, ())]
    folded = f"{counted(len(rest), 'more estimate')}" + ", of few questions or of answers that could not be read" * (
        len(shown) == len(solid)
    )
    dashed = f" (dashed: {reference:g})" if reference is not None else ""
    caption = f"{first['figure'].replace('_', ' ')}{f': {better}' * bool(better)}{dashed}."
    return {
        "name": first["domain"],
        "sentence": _sentence(rows, solid, boards, reference),
        "plot": _plot(shown, reference, cards),
        "rest": _plot(rest, reference, cards) if len(rest) else None,
        "rest_title": folded,
        "caption": f"{caption[0].upper()}{caption[1:]} Lines: 95 % intervals. Click a row for its conversations.",
        "three": _three(three),
        "others": _others(every[(every["domain"] == first["domain"]) & (every["bare"] != first["bare"])]),
    }


def _sentence(rows: pd.DataFrame, solid: pd.DataFrame, boards: pd.DataFrame | None, reference: float | None) -> str:
    if solid.empty:
        why = REASONS[rows["weak"].iloc[0]]
        return f"Nothing can be concluded: {why}."
    short = _short_names(rows["label"])
    clauses = list(_standings(solid, boards, short))
    if reference is not None and SCORER_BY_NAME[solid["bare"].iloc[0]].verdicts == {}:
        clauses.append(_sides(solid, reference))
    elif (solid["verdict"] != "").any():
        for verdict, own in solid.groupby("verdict", sort=False):
            who = leaderboard.named([short.get(name, name) for name in own["name"]])
            clauses.append(f"of {who} nothing definite can be told" if verdict == "" else f"{who}: {verdict}")
    if not clauses:
        top = solid.iloc[0]
        clauses.append(f"{top['name']} has {with_interval(top['score'], top['lower'], top['upper'])}")
    text = f"{'; '.join(clauses)}."
    return f"{text[0].upper()}{text[1:]}" if text.startswith(("no ", "none ", "all ", "of ", "with ")) else text


def _short_names(labels: "pd.Series[str]") -> dict[str, str]:
    """Models without their options, where that tells them apart."""
    names = list(map(str, labels.unique()))
    bare = [name.partition(" ")[0] for name in names]
    return {name: own if bare.count(own) == 1 else name for name, own in zip(names, bare, strict=True)}


def _sides(solid: pd.DataFrame, reference: float) -> str:
    """How many estimates are on each side of the reference value: "4 of 6 are better than 0.25, 1 of 6 is worse"."""
    words = list(SIDES.get(solid["best"].iloc[0], SIDES[""]).values())
    sides = solid["verdict"].str.partition(" ")[0].map(SIDES.get(solid["best"].iloc[0], SIDES[""]))
    against = SCORER_BY_NAME[solid["bare"].iloc[0]].better.partition(f"{reference:g} for ")[2]
    against = f"than {against} ({reference:g})" if against else f"than {reference:g}"
    if len(solid) == 1:
        return f"{solid['name'].iloc[0]} is {sides.fillna(f'not shown {words[0]}').iloc[0]} {against}"
    counts = [(word, int((sides == word).sum())) for word in words]
    told = [f"{number} of {len(solid)} {'is' if number == 1 else 'are'} {word}" for word, number in counts if number]
    first, *others = told or [f"none of the {len(solid)} is shown {' or '.join(words)}"]
    return ", ".join([f"{first} {against}", *others])


def _names(rows: pd.DataFrame) -> "pd.Series[str]":
    """What tells the rows of a plot apart: the model, task, mode, the scorer's options, or a number."""
    parts = [rows["label"], rows["task"], rows["mode"], rows["scorer"].str.partition(" ")[2]]
    texts, *others = [texts for texts in parts if texts.nunique() > 1] or parts[:1]
    for other in others:
        texts = (texts + ", " + other).str.removesuffix(", ")
    number = (texts.groupby(texts).cumcount() + 1).astype(str)
    return texts.where(~texts.duplicated(keep=False), texts + " (run " + number + ")")


def _standings(solid: pd.DataFrame, boards: pd.DataFrame | None, short: Mapping[str, str]) -> Iterator[str]:
    """Who leads the domain's largest leaderboard of models, and that of solvers: of several, the best row's."""
    if boards is None or boards.empty:
        return
    ranked = leaderboard.leaderboard(
        boards[(boards["by"] == "") & boards["score"].str.startswith(solid["bare"].iloc[0])]
    )
    tasks = solid["domain"] + (" " + solid["task"]).where(solid["task"] != "", "")
    parts = {"models": solid["mode"], "solvers": solid["label"].replace(short)}
    own = {
        of: dict(zip(tasks + ", " + solid[column], map(str, parts[of]), strict=True))
        for of, column in (("models", "mode"), ("solvers", "label"))
    }
    for of, setups in own.items():
        found = [
            (str(setup), board)
            for (kind, _, _, setup), board in (ranked.groupby(leaderboard.BOARD, sort=False) if len(ranked) else ())
            if kind == of and setup in setups
        ]
        if found:
            order = list(setups)
            setup, board = max(found, key=lambda entry: (len(entry[1]), -order.index(entry[0])))
            said = leaderboard.in_words(board.assign(model=board["model"].replace(short)))
            yield f"with {setups[setup]}, {said}" if len(found) > 1 else said


def _kinds(rows: pd.DataFrame, cells: pd.DataFrame | None) -> dict[str, list[str]]:
    """The worst and the best category of the first models of a plot, each in a sentence."""
    if cells is None:
        return {"kinds": []}
    said = {}
    for row in rows[rows["weak"] == ""].drop_duplicates(["model", "setup"]).itertuples():
        same = (cells["model"] == row.model) & (cells["setup"] == row.setup)
        own = same & cells["score"].str.startswith(str(row.bare))
        if own.any() and (sentence := in_words(cells[own])):
            said[str(row.name)] = f"By {cells.attrs['by']}, {row.name}: {sentence}"
    return {"kinds": list(said.values())[: leaderboard.NAMED]}


def _others(rows: pd.DataFrame) -> str:
    """Which other scores a domain has, with the verdicts that are definite."""
    said, short = [], _short_names(rows["label"])
    for scorer, own in rows.groupby("bare", sort=False):
        definite = own[own["verdict"] != ""]
        verdicts = dict.fromkeys(f"{short[str(row.label)]}: {row.verdict}" for row in definite.itertuples())
        said.append(f"{scorer}{f' ({leaderboard.named(list(verdicts))})' * bool(verdicts)}")
    return ", ".join(said)


def _plot(rows: pd.DataFrame, reference: float | None, cards: Mapping[int, Sequence[Card]]) -> dict[str, Any]:
    """The places of intervals, dots and ticks, in percent of the width."""
    ends = pd.concat([rows["score"], rows["lower"], rows["upper"]]).dropna().tolist()
    ends += [reference] * (reference is not None)
    low, high = (min(ends), max(ends)) if ends else (0.0, 1.0)
    pad = 0.04 * (high - low or 1.0)
    low, high = low - pad, high + pad

    def place(value: float) -> float:
        return round(100 * (value - low) / (high - low), 2)

    parts = [
        {
            "name": row["name"],
            "bar": not math.isnan(row["score"] + row["lower"])
            and (place(row["lower"]), place(row["upper"]) - place(row["lower"])),
            "dot": None if math.isnan(row["score"]) else place(row["score"]),
            "number": with_interval(row["score"], row["lower"], row["upper"]),
            "weak": _weakness(row),
            "three": cards.get(row["row"], ()),
        }
        for row in rows.to_dict("records")
    ]
    ticks = [(place(tick), f"{tick:g}") for tick in _ticks(low, high)]
    return {"rows": parts, "ticks": ticks, "reference": None if reference is None else place(reference)}


def _weakness(row: Mapping[Any, Any]) -> str:
    """Why an estimate is not relied on, in a few words."""
    if row["weak"] == "unread":
        share = row["share_read"]
        return "no answer read" if math.isnan(share) or share == 0 else f"{100 * share:.0f} % read"
    failed = row["failed"] / max(row["failed"] + row["answers"], 1)
    return {"failed": f"{100 * failed:.0f} % failed", "few_questions": f"n = {row['n']:.0f}"}.get(row["weak"], "")


def _ticks(low: float, high: float) -> list[float]:
    """Three to six round numbers between two."""
    size = 10 ** math.floor(math.log10((high - low) / 3))
    step = next(step for step in (5 * size, 2 * size, size) if (high - low) / step >= 3)
    return [round(float(tick), 10) for tick in np.arange(math.ceil(low / step), math.floor(high / step) + 1) * step]


def _conversations(evals: Runs, rows: pd.DataFrame, links: Mapping[str, str]) -> Iterator[tuple[int, list[Card]]]:
    """For the place of each row the worst, a typical and the best conversation."""
    wanted = {str(log): own.to_dict("records") for log, own in rows.groupby("log")}

    def read(run: Run) -> list[tuple[int, list[Card]]]:
        return [(row["row"], _picked(run, row, links)) for row in wanted.get(run.log.path, ())]

    for _, found in evals.read(read):
        yield from found


def _picked(run: Run, row: Mapping[Any, Any], links: Mapping[str, str]) -> list[Card]:
    """The three conversations of an estimate, read from its log."""
    label = row["scorer"].partition(" metric=")[0].partition(" reducer=")[0]
    values, key, best = list[tuple[float, str]](), "", None
    for member, sample in run.log.reader.outcomes():
        if (score := labelled(run, sample).get(label)) is None:
            continue
        own = numbers(row["bare"], score.value)
        if not key and own:
            key, best = _main_key(row["bare"], own, score)
        if not math.isnan(value := own.get(key, math.nan)):
            values.append((_badness(value, best), member))
    values.sort(key=lambda item: -item[0])
    if not values:
        return []
    places = sorted({0, len(values) // 2, len(values) - 1})
    picked = {values[place][1]: place for place in places}
    badness = {member: value for value, member in values}
    kinds = dict(zip(places, KINDS if len(places) == len(KINDS) else (KINDS[0], KINDS[2]), strict=False))
    cards = []
    for member, sample in run.log.reader.samples(list(picked)):
        replies = ["".join(part.text or part.reasoning or "" for part in each.parts) for each in own_replies(sample)]
        words = _clipped("\n\n".join(replies) or sample.reply, ALL_WORDS) or "(no words)"
        last = _clipped(replies[-1] if replies else words, WORDS) or _clipped(words, WORDS)
        outcome, confident = _outcome(sample, labelled(run, sample)[label], row["bare"], key)
        kind = kinds[picked[member]]
        card = {"kind": "Worst confident error" if kind == KINDS[0] and confident else kind, "who": row["name"]}
        card |= {"asked": _clipped(_question(sample).partition("\n")[0], ASKED), "outcome": outcome, "words": last}
        card |= {"more": words if words != last else "", "link": sample_link(links.get(run.log.path, ""), sample)}
        card |= {"where": f"{Path(run.log.path).name}, sample {sample.id}, epoch {sample.epoch}"}
        cards.append(card | {"badness": badness[member]})
    return sorted(cards, key=lambda card: -card["badness"])


def sample_link(log: str, sample: Outcome) -> str:
    """The address of a sample in the viewer at which its log is; "" without one."""
    return f"{log}/samples/sample/{quote(str(sample.id), safe='')}/{sample.epoch}" if log else ""


def _three(cards: Sequence[Card]) -> list[Card]:
    """The worst of all, the one in the middle of the typical ones, and the best."""
    order = sorted(cards, key=lambda card: card["badness"])
    typical = [card for card in order if card["kind"] == KINDS[1]]
    three = [*order[-1:], *typical[len(typical) // 2 : len(typical) // 2 + 1], *order[:1]]
    return [card for place, card in enumerate(three) if card not in three[:place]]


def _main_key(scorer: str, own: Mapping[str, float], score: LoggedScore) -> tuple[str, Best | None]:
    """The number of an answer that stands for a scorer, and its better end."""
    ends = {key: direction(scorer, key, score.details) for key in ordered_keys(scorer, own)}
    key = next((key for key, end in ends.items() if end), next(iter(ends)))
    return key, ends[key]


def _badness(value: float, best: Best | None) -> float:
    """A number for which more is worse; without a better end the farthest from 0 is the worst."""
    return abs(value) if best is None else value if best == "lowest" else -value


def _outcome(sample: Outcome, score: LoggedScore, scorer: str, key: str) -> tuple[str, bool]:
    """What a model said and what was true, and whether it was sure of what is false."""
    own = numbers(scorer, score.value)
    target = ", ".join([sample.target] if isinstance(sample.target, str) else sample.target)
    belief, truth = own.get("belief", own.get("posterior", math.nan)), binary_outcome(target)
    said = [] if math.isnan(belief) else [f"said {100 * belief:.0f} %"]
    said += [f"truth: {_clipped(target, 80)}"] * bool(target)
    said.append(f"{key.replace('_', ' ')} {decimals(own.get(key, math.nan))}")
    confident = truth is not None and abs(belief - float(truth)) > 0.5
    text = ", ".join(said)
    return f"{text[0].upper()}{text[1:]}.", confident


def _question(sample: Outcome) -> str:
    """What was asked: the input, or its last message."""
    asked = msgspec.json.decode(sample.input)
    content = asked[-1].get("content", "") if isinstance(asked, list) and asked else asked
    if isinstance(content, list):
        content = "\n".join(str(part.get("text") or "") for part in content)
    return str(content).strip()


def _clipped(text: str, most: int) -> str:
    """A text of at most so many characters, without what changes a page's direction."""
    plain = "\n".join(UNPRINTABLE.sub(" ", line).rstrip() for line in text.strip().splitlines())
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _distrust(frame: pd.DataFrame) -> Iterable[str]:
    """How many estimates rest on too little, and on which."""
    for key in WEAK:
        own = frame[[key in flags.split(", ") for flags in frame["flags"]]]
        if len(own):
            names = own["label"] + " in " + own["domain"]
            yield (
                f"{len(own)} of {counted(len(frame), 'estimate')}: {REASONS[key]} "
                f"({leaderboard.named(list(dict.fromkeys(names)))})."
            )
    once = int((frame["epochs"] == 1).sum())
    if once:
        yield (
            f"{once} of {counted(len(frame), 'estimate')}: one epoch, so that a question's own noise counts as a "
            "difference between questions."
        )
