"""The text of docs/validity_mutual_prediction.md, whose every figure comes from the run."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from truthgym.analysis.tables.markdown import table
from truthgym.scorers.mutual_predictability import NAME

if TYPE_CHECKING:
    import pandas as pd

WORDS = {
    "own": "The default: three other answers of the model are shown, and its own answer is predicted",
    "peers": "`predicted=random_non_evaluated`, `context_questions=evaluated_question`: the model's answer is shown, "
    "and that of an honest model to the same question is predicted",
}
"""What a design is."""
LABELS = {NAME: "above the null", "null_uplift": "null", "error": "Monte-Carlo error"}
RUN = ("agent", "planted", "bias", "error", "sd", "coverage", "above 0", "below 0")


def page(
    setting: Mapping[str, float],
    truth: "Mapping[str, pd.DataFrame]",
    runs: "Mapping[tuple[str, int], tuple[pd.DataFrame, float]]",
    others: "Mapping[str, pd.DataFrame]",
    texts: "pd.DataFrame",
) -> str:
    """The whole page.

    Args:
        setting: The constants of the simulation, by name.
        truth: From `mutual_prediction.planted`, by design.
        runs: From `mutual_prediction.replicate`, by design and number of questions.
        others: Planted values of other predictors, by what they are.
        texts: From `mutual_prediction.texts`.
    """
    parts, covered = [HEAD.format(**setting)], {}
    for design, words in WORDS.items():
        parts.append(f"## Design `{design}`\n\n{words}.\n")
        parts.append(table(truth[design], ("agent", NAME, "uplift", "null_uplift", "error"), LABELS, digits=4))
        sizes = {size: one for (name, size), one in runs.items() if name == design}
        for size, (frame, _) in sizes.items():
            parts.append(f"Runs of {size} questions:\n\n{table(frame, RUN)}")
        shares = ", ".join(f"{share:.0%} of runs of {size}" for size, (_, share) in sizes.items())
        parts.append(f"The three honest models come out in order in {shares} questions (by chance: 17%).\n")
        covered[design] = _coverage([frame for frame, _ in sizes.values()])
    own, peers = (frame.set_index("agent")[NAME] for frame in truth.values())
    by_name = {name.split(":")[0].split(",")[0].split(" (")[0]: name for name in own.index}
    liar, honest = by_name["consistent liar"], "honest, accuracy 0.90"
    others_by_name = {name: frame.set_index("agent")[NAME] for name, frame in others.items()}
    _, _, unaware, _ = others_by_name.values()
    style = by_name["style of the kind"]
    parts.append(
        LIMITS.format(
            liar=own[liar],
            honest=own[honest],
            peers=peers[honest],
            own_kind=own[style],
            kind=peers[style],
            kind_unaware=unaware[style],
            **{f"{design}_covered": range_ for design, range_ in covered.items()},
        )
    )
    frame = next(iter(others.values()))[["agent"]].assign(
        **{name: values.to_numpy() for name, values in others_by_name.items()}
    )
    error = max(one["error"].max() for one in others.values())
    parts.append(f"Other predictors, *above the null* (Monte-Carlo error at most {error:.4f}):\n")
    parts.append(table(frame, tuple(frame.columns), digits=4))
    parts.append(TEXT.format(**setting))
    parts.append(table(texts, ("agent", NAME, "uplift", "null_uplift", "error"), LABELS | {"agent": "text"}))
    return "\n".join(parts)


def _coverage(frames: "Sequence[pd.DataFrame]") -> str:
    shares = [share for frame in frames for share in frame.loc[frame["sd"] > 1e-9, "coverage"]]
    return f"{min(shares):.0%} to {max(shares):.0%}"


HEAD = """# Is mutual predictability right?

Written by `python -m studies.validity.mutual_prediction docs/validity_mutual_prediction.md`. Nothing here is
of a language model.

Questions of two kinds, with base rates {low:g} and {high:g}, two to an event, an event a day. The predictor knows the
kinds, knows something of each question (d' = {skill:g}, half of it before reasoning), expects {liars:.0%} liars, and
computes exact probabilities by Bayes' rule ([`models/agents/predictor.py`](../models/agents/predictor.py)). The other
model of `peers` answers right with probability {peer:g}. All in nats. *Above the null* is the headline,
`mutual_predictability`. The first table of a design has planted values: means over {n:,} questions, whose context and
null are drawn independently of the task. The runs after it take their trials from the task's own code: shown answers
are of other events and not later, the null of yet others, intervals are clustered by event. What is answered does not
change these draws (a test checks it), unless replies are the same word for word: then the task leaves the pair out.
*Bias* is of runs against planted values, with its Monte-Carlo *error*. Each size has {replications} runs, the largest
a quarter of that; a coverage of 95 % then has a standard error of {coverage_error:.1%} and
{coverage_error_largest:.1%}.
"""
LIMITS = """## What it cannot see

- **A consistent liar in the design `own`.** Its answers predict its answers: {liar:.4f}, and those of an honest model
  as accurate {honest:.4f}. In `peers` the liar comes out below 0, because this predictor expects honesty. One that
  expects as many liars as honest models cannot tell them apart (last column below).
- **A copier that rewords.** In `peers` it gets the most of all. Only pairs of models with one wording are left
  out. The matrix of models (`figures=all`) shows such a pair far above the others, and models of one family can be
  left out; nothing here proves that a pair did not copy.
- **A model that repeats the predictor.** In `own`, one that says what the predictor believes gets more than one that
  knows more, and one that says the opposite gets even more. Take several predictors, and `peers`.
- **The design `own` sees little.** It gives the best honest model {honest:.4f}, `peers` {peers:.4f}, so it needs many
  more questions.
- **A style of the kind of question.** One that ignores the question raises `uplift`, and `null_uplift` as much: above
  the null nothing is left. One that follows the kind of question knows nothing of the single question, and is at
  {own_kind:.4f} in `own`, far above an honest model. In `peers` it is at {kind:.4f}; if the predictor does not know the
  base rates of the kinds, at {kind_unaware:.4f}.
- **How uncertain it is in `own`.** An answer is shown in several predictions, also of other events, and the interval
  does not know that: by agent it covers the planted value in {own_covered} of the runs (`peers`: {peers_covered}).
  Always yes is left out of this.
- **A language model as the predictor.** This one computes; a real one may read answers worse, and react to their words.
"""
TEXT = """## Texts (`form=text`)

Whole replies to {texts} questions in `peers`, whose trials the task draws. The other model is honest and writes in the
words of the question. The predictor is that of `reference/predictor` for texts: a word is the likelier the more often
the request has it. What is predicted is then mostly the words:
"""
