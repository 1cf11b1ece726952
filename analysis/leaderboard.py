"""Which model or solver is better, and which differences are real? Paired differences of all, and ranks with ties.

python -m truthgym.analysis.leaderboard LOGS OUT.md      (also .csv, .html, .svg and .png)
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from textwrap import wrap
from types import MappingProxyType
from typing import Any

import altair as alt
import pandas as pd

from truthgym.analysis.tables.answers import UNREAD, SharedRows, answers, read_enough, share_read
from truthgym.analysis.tables.by_category import FEW, few_events
from truthgym.analysis.tables.markdown import (
    Caveat,
    chart_section,
    grouped,
    intervals,
    number_range,
    page,
    section,
    table,
)
from truthgym.analysis.tables.models import ACROSS, Names, Pairs, relabelled, without
from truthgym.analysis.tables.panels import BLUE, excluded_sentence, interval_panel, stack
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import directed_scores
from truthgym.analysis.tables.setups import Places, bare_name
from truthgym.datasets.errors import BadInput, one_of
from truthgym.scorers.statistics.direction import Best, span
from truthgym.scorers.statistics.interval import Estimate
from truthgym.scorers.statistics.multiplicity import ALPHA, holm, p_value, rank_ranges, simultaneous
from truthgym.scorers.statistics.paired import compare_means, unequally_read

QUESTION = "Which model or solver is better, and which differences are real?"
OF = ("models", "solvers")
"""What is compared: the models of a setup, and the solvers of a model."""
NOT_TESTED = "not tested"
FEWEST_QUESTIONS = 10
"""Shared questions below which two models are not compared."""
TOOLTIP = ["model", "rank", "tied", "gap", "lower", "upper", "n"]
BOARD = ["of", "by", "score", "setup"]
"""Columns that name a leaderboard."""
FAMILY = BOARD[:3]
"""Columns of what is corrected together, once in the setups and once across them."""
NAMED = 3
"""Names in a sentence; of more only their number is said."""
LABELS = {
    "p_adjusted": "p (Holm)",
    "n": "questions",
    "value": "mean",
    "other_value": "mean of the other",
    "difference": "difference [95 % interval]",
    "gap": "difference from the first [95 % interval]",
    "tied": "not told apart from",
}


def load(
    logs: Places, scorer: str = "", key: str = "", labels: Pairs = "", exclude: Names = "", of: str = "", by: str = ""
) -> pd.DataFrame:
    """Compare all pairs of models on shared questions, in each setup and across the setups that all models have.

    The solvers of a model are compared in the same way, in each task that it answered with several. Epochs are averaged
    first, then the difference is the mean over shared questions, with an interval clustered by event that ends at the
    range of the score. p values are corrected by Holm's method over all pairs (and setups) of a score, once for the
    setups and once across them, where every question of every setup counts the same.

    Args:
        logs: Logs and folders of logs.
        scorer: Compare by this scorer only. "": by all scorers.
        key: Compare by this key of the scores. "": of each scorer by its first, such as `brier_score`.
        labels: Names to show: a part of a model's name and the text, as in "qwen=Qwen,llama=Llama".
        exclude: Models and setups to leave out: parts of their names. The chart says which.
        of: Compare "models" or "solvers". "": both, where there are two or more.
        by: Compare in each category of this field of the questions too; p values are corrected for their number.

    A row for each pair, in which `model` has the better mean: `difference` (model minus other) with its own 95 %
    bounds, and `better`: the model that is better at 5 % after the correction, "" for a tie, or `NOT_TESTED`. A solver
    stands in the column `model`, and its setup is the task and the model. `attrs["ranks"]` holds the rows of
    `leaderboard`.
    """
    one_of("of", of, ("", *OF))
    frame, excluded = without(answers(logs, scorer=scorer, by=by), exclude)
    frame = relabelled(frame, labels)
    tables, notes, refused = list[pd.DataFrame](), list[str](), list[BadInput]()
    for kind in (of,) if of else OF:
        try:
            entrants = frame if kind == "models" else _of_solvers(frame)
            tables.append(differences(entrants, key, kind))
        except BadInput as error:
            refused.append(error)
            continue
        try:
            tables += [_by_category(entrants, by, key, kind)] if by else []
        except BadInput as error:
            notes.append(f"By {by}: {error.args[0]}")
    if not tables:
        raise refused[0]
    for table_of in tables:
        notes += table_of.attrs.pop("notes")
    every = pd.concat(tables, ignore_index=True)
    every.attrs = {"notes": list(dict.fromkeys(notes)), "excluded": excluded}
    every.attrs["ranks"] = SharedRows(leaderboard(every).to_dict("records"))
    return every


def _of_solvers(frame: pd.DataFrame) -> pd.DataFrame:
    """Answers whose entrants are solvers, of each model that answered a task with several."""
    tasks = frame["domain"] + (" " + frame["task"]).where(frame["task"] != "", "")
    swapped = frame.assign(model=frame["mode"], setup=tasks + ", " + frame["model"])
    several = swapped[swapped.groupby("setup")["model"].transform("nunique") > 1]
    if several.empty:
        raise BadInput(
            "of='solvers': no model answered the questions of a task with two solvers; run it again, as with: "
            "inspect eval truthgym/urns --solver truthgym/chain_of_thought"
        )
    return several


def _by_category(frame: pd.DataFrame, by: str, key: str, of: str) -> pd.DataFrame:
    """The comparisons in each category of a field, with a warning of those with few events."""
    setups = frame["setup"] + f", {by} " + frame["category"]
    categories = dict(zip(setups, frame["category"], strict=True))
    every = differences(frame.assign(setup=setups), key, of)
    compared = every[every["setup"] != ACROSS].assign(by=by)
    cells = compared.assign(category=compared["setup"].map(categories), few=compared["clusters"] < FEW)
    compared.attrs["notes"] = few_events(cells)
    return compared


def differences(frame: pd.DataFrame, key: str = "", of: str = "models") -> pd.DataFrame:
    """The same from a table of answers whose column `model` has what is compared."""
    caveats: list[Caveat] = []
    rows: list[dict[str, Any]] = []
    compared_by = set()
    for name, best, scores in directed_scores(frame, key):
        compared_by |= set(scores["scorer"])
        enough = read_enough(scores, ["setup", "model"])
        unread = scores.loc[~enough, ["setup", "model"]].drop_duplicates()
        caveats += [
            Caveat("Not compared", f"{name} of {row.model} in {row.setup}", UNREAD) for row in unread.itertuples()
        ]
        scores = scores[enough]
        if scores.empty:
            continue
        setups = {str(setup): _questions(part) for setup, part in scores.groupby("setup", sort=True)}
        parts = {**{str(setup): part for setup, part in scores.groupby("setup")}, ACROSS: scores}
        read = {setup: part.groupby("model").apply(share_read).to_dict() for setup, part in parts.items()}
        caveats += _caveats(name, scores, setups)
        in_all = set.intersection(*(set(means.columns) for means in setups.values()))
        if len(setups) > 1 and len(in_all) > 1:
            setups = {ACROSS: pd.concat([means[sorted(in_all)] for means in setups.values()], keys=setups), **setups}
        elif len(setups) > 1:
            caveats.append(Caveat("Not compared across setups", name, f"no two {of} have all {len(setups)} setups"))
        for setup, means in setups.items():
            bounds = span(bare_name(str(scores["scorer"].iloc[0])), str(scores["key"].iloc[0]), {})
            board = {"of": of, "by": "", "setup": setup, "score": name, "best": best}
            rows += [board | row for row in _pairs(means, best, bounds, read[setup])]
    why = f"key={key} names none of its numbers that has a better end" if key else (
        "no number of an answer has a better end; truthgym compare A.eval B.eval compares two models by a slope over "
        "questions, as of martingale"
    )  # fmt: skip
    caveats += [Caveat("Not compared", str(scorer), why) for scorer in sorted(set(frame["scorer"]) - compared_by)]
    why = f"{FEWEST_QUESTIONS} that both have a score of are needed"
    for row in rows:
        if row["n"] < FEWEST_QUESTIONS:
            what = f"{row['score']}, {row['setup']}: {row['model']} and {row['other']} share {row['n']} questions"
            caveats.append(Caveat("Not compared", what, why))
    compared = pd.DataFrame([row for row in rows if row["n"] >= FEWEST_QUESTIONS])
    if compared.empty:
        causes = grouped(caveat for caveat in caveats if caveat.consequence.startswith("Not compared"))
        raise BadInput(
            f"No two {of} can be compared. {' '.join(causes) or 'No two have a score of one setup.'} Two or more "
            f"{of} need {FEWEST_QUESTIONS} questions in common, in one setup and with a score that has a better end."
        )
    families = compared.groupby([*FAMILY, compared["setup"] == ACROSS])
    compared["p_adjusted"] = families["p"].transform(holm)
    tested = compared["p"].notna()
    compared["better"] = compared["model"].where(compared["p_adjusted"] < ALPHA, "").where(tested, NOT_TESTED)
    caveats += [
        Caveat("Not tested", f"{pair.model} and {pair.other} in {pair.setup}", str(pair.reason))
        for pair in compared[~tested].itertuples()
    ]
    compared.attrs["notes"] = [*frame.attrs.get("notes", []), *grouped(caveats)]
    return compared


def leaderboard(frame: pd.DataFrame) -> pd.DataFrame:
    """The models of each setup and score with the ranks that they can have ("1-3" for a tie), best first.

    `tied` are the models that it is not told apart from, and `gap` the difference from the first, with intervals that
    hold at once over all pairs.
    """
    rows = []
    usual = {"of": OF[0], "by": ""}  # of a frame of pairs that was made without them
    frame = frame.assign(**{name: value for name, value in usual.items() if name not in frame})
    for names, pairs in with_simultaneous(frame).groupby([*BOARD], sort=False):
        wins = pairs["model"].value_counts()
        order = sorted({*pairs["model"], *pairs["other"]}, key=lambda name: (-wins.get(name, 0), name))
        real = pairs[~pairs["better"].isin(["", NOT_TESTED])]
        ranges = rank_ranges(order, list(zip(real["better"], real["other"], strict=True)))
        for name in order:
            own = pairs[(pairs["model"] == name) | (pairs["other"] == name)]
            first = own[(own["model"] == order[0]) & (own["other"] == name)]
            gap: Any = -first[["difference", "upper", "lower"]].iloc[0] if len(first) else [math.nan] * 3
            low, high = ranges[name]
            ranks: tuple[Any, ...] = (low, high, str(low) if low == high else f"{low}-{high}")
            if (own["better"] == NOT_TESTED).all():
                ranks = (math.nan, math.nan, "")
            alike = own[own["better"].isin(["", NOT_TESTED])]
            tied = [other for other in order if other != name and (alike[["model", "other"]] == other).any(axis=None)]
            row = dict(zip(BOARD, names, strict=True)) | {"model": name, "tied": named(tied)}
            row |= dict(zip(("best_rank", "worst_rank", "rank"), ranks, strict=True))
            row |= dict(zip(("gap", "lower", "upper"), gap, strict=True))
            row["gap"] = 0.0 if name == order[0] else row["gap"]
            rows.append(row | {"best": pairs["best"].iloc[0], "n": own["n"].min()})
    return pd.DataFrame(rows)


def named(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    if len(names) > NAMED:
        return f"{', '.join(names[: NAMED - 1])} and {len(names) - NAMED + 1} more"
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def in_words(board: pd.DataFrame) -> str:
    """Who leads a leaderboard, the rows of `leaderboard` for one, and who is not told apart: a clause of a sentence."""
    tested = board.dropna(subset="best_rank")
    of, number = board["of"].iloc[0], len(tested)
    top = tested[tested["best_rank"] == 1]
    if not number:
        return f"no two {of} could be tested"
    if len(top) == number:
        return f"no difference between {named(list(top['model']))} is shown"
    if len(top) == 1:
        return f"{top['model'].iloc[0]} is the best of {number} {of}"
    return f"{named(list(top['model']))} share the first place of {number} {of} and are not told apart"


def with_simultaneous(frame: pd.DataFrame) -> pd.DataFrame:
    """The pairs with intervals that hold at once over all setups, or all across them, of a score (`simultaneous`)."""
    wider = frame.copy()
    fields = ["difference", "lower", "upper", "mde", "n", "stderr", "clusters", "effective_clusters"]
    for _, family in frame.groupby([*FAMILY, frame["setup"] == ACROSS]):
        tests = int(family["p"].notna().sum())
        for place, pair in family[family["lower"].notna()].iterrows():
            wide = simultaneous(Estimate(*pair[fields]), tests, pair["reach"])
            wider.loc[place, ["lower", "upper"]] = wide.lower, wide.upper
    return wider


def chart(frame: pd.DataFrame) -> alt.VConcatChart:
    """Draw the ranks that each model can have: a panel for each score and setup. Bars that overlap are ties."""
    board = leaderboard(frame).dropna(subset="best_rank")
    panels = [_panel(rows) for _, rows in board.groupby(BOARD, sort=False)]
    nothing = "No two models share three independent events, so no rank can be drawn; ask about more events"
    return stack(panels, nothing, 500, frame.attrs.get("excluded", []), spacing=24)


def _panel(rows: pd.DataFrame) -> alt.HConcatChart:
    score, setup, best = rows[["score", "setup", "best"]].iloc[0]
    order = list(rows["model"])
    bounds = rows.assign(left=rows["best_rank"] - 0.3, right=rows["worst_rank"] + 0.3)
    rank = alt.X(
        "left:Q",
        title="rank (1 is best; bars that overlap are ties)",
        scale=alt.Scale(domain=[0.5, len(order) + 0.5], nice=False),
        axis=alt.Axis(values=list(range(1, len(order) + 1)), format="d"),
    )
    names = alt.Y("model:N", sort=order, title=None, axis=alt.Axis(labelLimit=260))
    bars = alt.Chart(bounds).mark_bar(height=10, cornerRadius=3, color=BLUE)
    ranks = bars.encode(y=names, x=rank, x2="right:Q", tooltip=TOOLTIP).properties(width=240, height={"step": 18})
    title = f"difference from {order[0][:40]} ({'lower' if best == 'lowest' else 'higher'} is better)"
    gaps = interval_panel(
        rows.dropna(subset="lower"),
        alt.X("gap:Q", title=title),
        color="black",
        point={"size": 50},
        y=alt.Y("model:N", sort=order, title=None, axis=None),
        tooltip=TOOLTIP,
    ).properties(width=300, height={"step": 18})
    subtitle = wrap(f"{number_range(rows['n'])} shared questions: {in_words(rows)}", 110)
    return alt.hconcat(ranks, gaps, title=alt.Title(f"{score}, {setup}", subtitle=subtitle, anchor="start"))


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The leaderboards and the differences as Markdown, with the notes."""
    sections = []
    board = leaderboard(frame).assign(gap=lambda rows: intervals(rows, "gap"))
    at_once = with_simultaneous(frame)
    differences = frame.assign(difference=intervals(at_once, "difference"), better=frame["better"].replace("", "tie"))
    for key, pairs in differences.groupby(FAMILY, sort=False):
        of, by, score = map(str, key)
        own = board[(board[FAMILY] == [of, by, score]).all(axis=1)]
        labels = LABELS | {"model": of[:-1]}
        better = "Lower" if pairs["best"].iloc[0] == "lowest" else "Higher"
        columns = ("setup", "model", "other", "value", "other_value", "difference", "p_adjusted", "n", "better")
        sections.append(
            section(
                f"{score}, {of}{f' by {by}' * bool(by)}",
                f"{better} is better. Bars that overlap, ranks in common: not told apart.",
                table(own, ("setup", "rank", "model", "gap", "tied", "n"), labels),
                f"All pairs, with the means of the questions that both {of} have:",
                table(pairs, columns, labels),
            )
        )
    caption = (
        "Ranks that each model can have after Holm's correction at 5 %, and its paired difference from the best with "
        f"an interval, on {number_range(frame['n'])} shared questions. Models whose bars overlap were not told apart. "
        "The intervals hold at once, in 95 % of leaderboards, for all pairs of models: one alone would be shorter, and "
        "where Holm's test tells two models apart by little theirs may still hold 0."
    ) + excluded_sentence(frame.attrs.get("excluded", []))
    return page([chart_section(figure, "Ranks that each model can have", caption), *sections], frame)


def _questions(answers: pd.DataFrame) -> pd.DataFrame:
    """The mean of each question (rows: event and id) and model (columns) over epochs and runs."""
    events = answers["domain"] + " " + answers["event"].astype(str)  # modes of one domain ask about the same events
    keys = [events.rename("event"), answers["sample_id"].astype(str), answers["model"]]
    means: pd.DataFrame = answers["value"].groupby(keys).mean().unstack("model")
    return means


def _pairs(
    means: pd.DataFrame,
    best: Best,
    bounds: tuple[float, float] | None = None,
    shares: Mapping[Any, float] = MappingProxyType({}),
) -> Iterator[dict[str, Any]]:
    """Each pair of models on the questions of both, not tested where they read too little or unevenly."""
    values = {
        str(name): {key: [value] for key, value in means[name].dropna().items()} for name in sorted(map(str, means))
    }
    events = dict(zip(means.index, means.index.get_level_values(-2), strict=True))
    for pair in combinations(values, 2):
        better = means[[*pair]].dropna().mean()
        model, other = sorted(pair, key=lambda name: better[name], reverse=best == "highest")
        read = shares.get(model, 1.0), shares.get(other, 1.0)
        compared = compare_means(values[model], values[other], events, bounds, read=read)
        difference, same = compared.difference, (means[model] - means[other]).abs().max() == 0
        uneven = unequally_read(*reversed(read))
        yield {
            **{"model": model, "other": other, "value": compared.after, "other_value": compared.before},
            **{"difference": difference.estimate, "lower": difference.lower, "upper": difference.upper},
            **{"p": 1.0 if same and not uneven else p_value(difference), "n": difference.n},
            **{"clusters": difference.clusters, "effective_clusters": difference.effective_clusters},
            **{"stderr": difference.stderr, "mde": difference.mde, "reach": compared.reach},
            "reason": uneven or compared.reason,
        }


def _caveats(name: str, scores: pd.DataFrame, setups: dict[str, pd.DataFrame]) -> Iterator[Caveat]:
    """What the answers of a score do not allow to conclude."""
    care = "Read with care"
    if scores["epoch"].nunique() == 1:
        yield Caveat(care, name, "one epoch: a question's own noise counts as a difference between questions")
    for setup, means in setups.items():
        if len(means.columns) == 1:
            yield Caveat("Not compared", f"{name}, {setup}: only {means.columns[0]}", "one model alone was run")
        shared = len(means.dropna())
        if len(means.columns) > 1 and shared < len(means):
            what = f"{name}, {setup}: {shared} of {len(means)} questions"
            yield Caveat(care, what, "the others lack the score of a model; each pair uses those that both have")


if __name__ == "__main__":
    main(load, chart, __doc__, report)
