"""What did training change? Before, after and a control on the same questions, with side effects.

python -m truthgym.analysis.training_effect LOGS OUT.md --before hf/base --after 'hf/trained-*' --control 'hf/random-*'
"""

import fnmatch
from collections import defaultdict
from collections.abc import Iterator, Sequence

import altair as alt
import numpy as np
import pandas as pd

from truthgym.analysis.tables.answers import answers, by_question, epochs_by_question, share_read
from truthgym.analysis.tables.beliefs import beliefs
from truthgym.analysis.tables.markdown import by_reason, intervals, page, picture, section, table
from truthgym.analysis.tables.panels import BLUE, GRAY, ORANGE, grid, interval_panel, labels, scale
from truthgym.analysis.tables.saving import main
from truthgym.analysis.tables.score_names import BETTER, ends, main_scores, score_name, score_names
from truthgym.analysis.tables.setups import Places
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.martingale import ELICITORS
from truthgym.scorers.statistics.martingale_score import brier_gain, movement
from truthgym.scorers.statistics.paired import ONE_SEED, Comparison, compare_recipes

QUESTION = "What did training change, beyond what a control changed?"
CUT_OFF, READ_BY = "cut off", "read by "
"""Measures that are shares of answers, the second before the name of a scorer."""
FORM = {"characters": "length", "steps": "length"} | dict.fromkeys(("hedges", "numbers", "confidence", CUT_OFF), "form")
"""Side effects that are read from every answer, and what they are of."""
CHANGE, CONTROL, BEYOND = "after minus before", "control minus its start", "change beyond the control"
COLORS = {CHANGE: BLUE, CONTROL: GRAY, BEYOND: ORANGE}
SHAPES = ("circle", "square", "diamond")
TOOLTIP = ["setup", "split", "model", "comparison", "difference", "lower", "upper", "mde", "n", "seeds"]
TIDY = ["setup", "split", "of", "measure", "better", "model", "sample_id", "event", "value"]
KEYS = ["setup", "split", "of", "measure", "model", "comparison"]
LABELS = {"first": "before", "last": "after", "n": "questions", "mde": "smallest detectable"}


def load(logs: Places, before: str = "", after: str = "", control: str = "", control_before: str = "") -> pd.DataFrame:
    """Compare trained models with the model that training started from, question by question.

    Each difference is the mean over the questions that all models in it have a number for, epochs averaged first. Its
    interval counts seeds, the models that one recipe trained, beside the questions clustered by event
    (`compare_recipes`). A single model cannot tell the recipe from its seed, so there is no interval: `truthgym
    compare` tells whether two models differ. Splits are compared separately, since a change on questions that were
    trained on does not show what was learnt.

    Args:
        logs: Logs and folders of logs, of the same tasks by all the models.
        before: The model that training started from: the `model` of a log, or the part of it that no other model
            has. May be omitted if the logs are of two models and `after` is given.
        after: The models that a recipe trained, one for each seed: their names with commas, or a pattern with `*`.
            "": every model that is not named by the other arguments, each a recipe of its own.
        control: Models that were trained in the same way on something else, such as random answers; as `after`.
        control_before: The model that the control started from. "": `before`.

    A row for each `setup`, `split`, `measure`, trained `model` and `comparison` (`CHANGE`, `CONTROL`, `BEYOND`). `of`
    is "score" for the main number of each scorer, "other score", or "length" and "form" for side effects; `seeds` the
    fewest models of a trained arm, and `reason` why there is no interval.
    """
    answer_rows = answers(logs, features=True)
    names = sorted(answer_rows["model"].unique())
    before, after = _default_start(names, before, after)
    start, other = _models(names, "before", before), _models(names, "control", control) if control else []
    other_start = _models(names, "control_before", control_before) if control_before else start
    others = {*start, *other, *other_start}
    trained = {after: _models(names, "after", after)} if after else {n: [n] for n in names if n not in others}
    if not trained:
        raise BadInput(f"No model is left to compare with {before}: the logs are of {', '.join(names)}; add its logs")
    changes, without = _belief_changes(logs, answer_rows)
    measured = pd.concat([_scores(answer_rows), changes, _side_effects(answer_rows)], ignore_index=True)
    rows, refused, unread = [], defaultdict[str, list[str]](list), defaultdict[str, list[str]](list)
    refused["no prior and posterior of the same questions"] = without
    for key, part in measured.groupby(KEYS[:4], sort=True):
        models = dict(list(part.groupby("model")))
        events = dict(zip(part["sample_id"], part["event"], strict=True))
        facts = dict(zip(KEYS, key, strict=False)) | {"better": part["better"].iloc[0]}
        for name, seeds in trained.items():
            missing = [model for model in (*seeds, *start) if model not in models]
            if missing:
                refused[f"no answers of {', '.join(missing)}"].append(str(key[0]))
                continue
            controlled = bool(other) and all(model in models for model in (*other, *other_start))
            arms = [[models[model] for model in arm] for arm in (seeds, start, *([other, other_start] * controlled))]
            label = seeds[0] if len(seeds) == 1 else name
            for comparison, compared, of in _compared(arms, events):
                row = compared.row()
                means = {"first": row.pop("before"), "last": row.pop("after")}
                more = {"seeds": of, "reason": compared.reason}
                rows.append(facts | {"model": label, "comparison": comparison} | means | row | more)
                if compared.reason and compared.reason != ONE_SEED:
                    unread[compared.reason].append(f"{key[3]}, {comparison}, of {label} in {key[0]}")
            if other and not controlled:
                refused[f"no answers of {' and '.join(other)} or of its start"].append(f"the control in {key[0]}")
    frame = pd.DataFrame([row for row in rows if row["n"]])
    if frame.empty:
        said = f"{', '.join(start)} and {', '.join(trained)}"
        raise BadInput(f"{said} answered no question in the same setup; ask both the same")
    frame.attrs["notes"] = [
        *by_reason({why: list(dict.fromkeys(names)) for why, names in unread.items()}, "No interval"),
        *_remarks(frame, bool(other)),
        *by_reason({why: list(dict.fromkeys(names)) for why, names in refused.items()}),
    ]
    return frame


def _compared(arms: Sequence[Sequence[pd.DataFrame]], events: dict[str, str]) -> Iterator[tuple[str, Comparison, int]]:
    """The comparisons of a measure, each with its seeds: the change, that of a control, and the difference of both."""
    values = [[epochs_by_question(model) for model in arm] for arm in arms]
    shares = [[share_read(model) for model in arm] for arm in arms]
    for name, sides in ((CHANGE, (0, 1)), (CONTROL, (2, 3)), (BEYOND, (0, 1, 2, 3)))[: 1 if len(arms) == 2 else 3]:
        after, before, *control = (values[side] for side in sides)
        read = [share for side in sides for share in shares[side]]
        seeds = min(len(arms[side]) for side in sides[::2])
        pair = (control[0], control[1]) if control else None
        yield name, compare_recipes(after, before, events, pair, read), seeds


def _scores(answer_rows: pd.DataFrame) -> pd.DataFrame:
    """The numbers that have a better end, by `measure`."""
    chosen = main_scores(answer_rows)[0]["score"].unique()
    scores = answer_rows.assign(measure=score_names(answer_rows))
    better = {score_name(*pair): BETTER.get(end or "", "") for pair, end in ends(answer_rows).items()}
    scores["of"] = np.where(scores["measure"].isin(chosen), "score", "other score")
    scores["better"] = scores["measure"].map(better)
    return scores.loc[(scores["of"] == "score") | (scores["better"] != ""), TIDY]


def _belief_changes(logs: Places, answer_rows: pd.DataFrame) -> tuple[pd.DataFrame, list[str]]:
    """One value for each question of what `martingale` measures by means: excess movement and Brier gain."""
    rows, without = [], []
    if answer_rows["scorer"].str.startswith("martingale").any():
        recorded = beliefs(logs)
        recorded = recorded[recorded["stage"].isin(["prior", "posterior"])]
        for (setup, split, model, scorer), run in recorded.groupby(["setup", "split", "model", "scorer"]):
            run = run[run["elicitor"] == next(name for name in ELICITORS if name in set(run["elicitor"]))]
            sides = [by_question(part.assign(value=part["belief"])) for _, part in run.groupby("stage", sort=True)]
            if len(sides) < 2 or sides[0].question != sides[1].question:
                without.append(f"{scorer} of {model} in {setup}")
                continue
            posterior, prior = (side.values for side in sides)
            y = run.drop_duplicates("sample_id").set_index("sample_id").loc[sides[0].question, "outcome"]
            figures = {
                "excess_movement": movement(prior, posterior).excess,
                "brier_gain": brier_gain(prior, posterior, y.to_numpy(float)),
            }
            for name, values in figures.items():
                facts = {"setup": setup, "split": split, "of": "other score", "measure": f"{scorer}/{name}"}
                facts |= {"better": "higher" if name == "brier_gain" else "0", "model": model}
                values_of = zip(sides[0].question, sides[0].event, values, strict=True)
                rows += [facts | {"sample_id": q, "event": event, "value": value} for q, event, value in values_of]
    return pd.DataFrame(rows, columns=TIDY), without


def _side_effects(answer_rows: pd.DataFrame) -> pd.DataFrame:
    """What every answer shows besides its scores. What is the same in all answers is left out."""
    first = answer_rows.drop_duplicates(["eval_id", "sample_id", "epoch"])
    first = first.assign(**{CUT_OFF: first["stop_reason"].isin(["max_tokens", "model_length"]).astype(float)})
    parts = [first.assign(measure=name, of=of, value=first[name].astype(float), better="") for name, of in FORM.items()]
    read, _ = main_scores(answer_rows)
    share = read["value"].notna().astype(float)
    parts.append(read.assign(measure="read by " + read["scorer"], of="form", value=share, better="higher"))
    rows = pd.concat([part[TIDY] for part in parts], ignore_index=True)
    return rows[rows.groupby(["setup", "measure"])["value"].transform("nunique") > 1]


def _remarks(frame: pd.DataFrame, control: bool) -> list[str]:
    """What the differences do not show."""
    alone = sorted(frame.loc[frame["reason"] == ONE_SEED, "model"].unique())
    clear = ((frame["lower"] > 0) | (frame["upper"] < 0)).sum()
    drawn = int(frame["lower"].notna().sum())
    return [
        *["Without a control, a change may be due to training of any kind, not to what was learnt."] * (not control),
        *["Questions of the train split may have been trained on: only the others show what was learnt."]
        * ("train" in set(frame["split"])),
        *[
            f"No interval for {', '.join(alone)}: {ONE_SEED}. Train with other seeds and name the models together, as "
            "in after='hf/trained-*'; whether two models differ is what `truthgym compare` says."
        ]
        * bool(alone),
        f"{clear} of {drawn} intervals exclude 0; without any effect, about {drawn / 20:.1f} would.",
        "A martingale score is a slope over all questions: `truthgym compare` has its difference.",
    ]


def chart(frame: pd.DataFrame) -> alt.ConcatChart:
    """Draw the differences with their intervals, a panel for each main score and side effect, largest change first."""
    drawn = frame[frame["difference"].notna() & (frame["of"] != "other score")]
    order = ("score", "length", "form")
    parts = sorted(drawn.groupby(["of", "measure"]), key=lambda part: (order.index(str(part[0][0])), str(part[0][1])))
    nothing = "No difference has an interval, so there is no chart; ask more questions about other events"
    return grid([_panel(rows) for _, rows in parts], 2, nothing)


def _panel(rows: pd.DataFrame) -> alt.LayerChart:
    label = rows["setup"] + np.where(rows["split"] == "", "", ", " + rows["split"] + " split")
    label += np.where(rows["model"].nunique() > 1, ", " + rows["model"], "")
    comparisons = [name for name in COLORS if name in set(rows["comparison"])]
    better = rows["better"].iloc[0]
    colors = scale(comparisons, COLORS)
    return interval_panel(
        rows.assign(label=label),
        alt.X("difference:Q", title=f"difference ({better} is better)" if better else "difference"),
        color=alt.Color("comparison:N", title=None, legend=alt.Legend(orient="top"), scale=colors),
        point={"size": 55},
        y=labels("label", alt.EncodingSortField("difference", "mean"), 220),
        yOffset=alt.YOffset("comparison:N", sort=comparisons),
        shape=alt.Shape("comparison:N", title=None, scale=scale(comparisons, SHAPES)),
        tooltip=TOOLTIP,
    ).properties(width=240, height={"step": 14}, title=str(rows["measure"].iloc[0]))


def report(frame: pd.DataFrame, figure: str = "") -> str:
    """The differences as Markdown tables, scores before side effects."""
    cells = frame.assign(cell=intervals(frame, "difference"))
    compared = cells.pivot(index=KEYS[:-1], columns="comparison", values="cell")
    changes = frame[frame["comparison"] == CHANGE].set_index(KEYS[:-1]).join(compared).reset_index()
    comparisons = [name for name in COLORS if name in compared]
    models = ["model"] * (changes["model"].nunique() > 1)
    columns = ["setup", "split", "measure", "better", *models, "first", "last", *comparisons, "mde", "n", "seeds"]
    parts = []
    for title, kinds in (("Scores", ("score", "other score")), ("Side effects", ("length", "form"))):
        rows = changes[changes["of"].isin(kinds)].fillna(dict.fromkeys(comparisons, "-"))
        parts += [section(title, table(rows, columns, LABELS))] * bool(len(rows))
    caption = CAPTION.format(least=frame["n"].min(), most=frame["n"].max())
    return page([*parts, LEGEND, picture(figure, "Differences", caption)], frame)


LEGEND = (
    "\nDifferences are taken question by question, with 95 % intervals over the seeds of a recipe and the events. "
    f"`{BEYOND}` is the effect of what was trained on, if without it the model would have changed as the control did. "
    "`smallest detectable` and `questions` are those of the change.\n"
)
CAPTION = (
    "Paired differences, with 95 % intervals where several seeds were trained, on {least} to {most} questions. Dashed: "
    "no change. Other scores are in the table only."
)


def _default_start(names: Sequence[str], before: str, after: str) -> tuple[str, str]:
    if before:
        return before, after
    trained = _models(names, "after", after) if after else []
    others = [name for name in names if name not in trained]
    if after and len(others) == 1:
        return others[0], after
    raise BadInput(
        f"before is missing: name the model that training started from, one of {', '.join(names)}, as in: truthgym "
        "report LOGS --out DIR -A training_effect.before=MODEL"
    )


def _models(names: Sequence[str], argument: str, text: str) -> list[str]:
    """The models that a text names: in full or in part, several with commas, or all that fit a pattern with `*`."""
    found: list[str] = []
    for part in filter(None, map(str.strip, text.split(","))):
        if "*" in part:
            fitting = fnmatch.filter(names, part)
        else:
            fitting = [name for name in names if name == part] or [name for name in names if part in name]
        if not fitting or (len(fitting) > 1 and "*" not in part):
            problem = f"fits {', '.join(fitting)}" if fitting else f"is in no log; the models are {', '.join(names)}"
            raise BadInput(f"{argument}={part!r} {problem}; give the name of one, or of seeds with commas or `*`")
        found += fitting
    return list(dict.fromkeys(found))


if __name__ == "__main__":
    main(load, chart, __doc__, report)
