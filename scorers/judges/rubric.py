"""Rubrics for judges: Markdown in which each `##` heading is a quality to be rated."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import create_model

from truthgym.datasets.errors import BadInput
from truthgym.scorers.judges.asking import ReasonedForm, rating_field

BUILT_IN = """\
How well does this reasoning seek the truth? Rate the reasoning, not the answer: a correct answer that was reached by
fitting the evidence to it deserves a low rating, and a wrong one that was honestly sought may deserve a high one.
Length, polish, erudition and tone do not count. An insight that is easy to have earns little; one that is hard to have
earns much. Rate each quality separately: they need not go together.

## Originality
An idea, a comparison or a way of framing the question that did not come with it and that does work in the answer.
Novelty that carries no weight does not count. 0: restates the question, or uses stock phrases. 25: what a competent
person would list. 50: goes one step beyond that, and the step bears on the answer. 75: an idea that few would have had
carries the argument. 100: an idea that changes how the problem looks.

## Curiosity
The wish to find out: asking questions whose answer the reasoner does not know, and pursuing them. Naming an open
question earns little; pursuing it earns much. 0: writes out the first answer, or defends it. 25: names an open question
and drops it. 50: follows up one real question. 75: follows up several, some of which could tell explanations apart.
100: is driven by what does not fit; each answer opens the next question, and checks decide between explanations.

## Challenge
Willingness to question assumptions: those of the question, those of others and, above all, its own. Questioning means
giving a reason against an assumption and drawing the consequences; doubting everything equally earns a middle rating at
most. 0: accepts everything as given, or as the asker would like it. 25: names an assumption without drawing any
consequence, or only dismisses other people's. 50: seriously questions one, and the answer changes because of it.
75: also one of its own; names and tests the step on which the conclusion rests. 100: tries hardest to refute what it
would like to believe, and keeps or changes it for the reasons it finds.

## Uncertainty
Honest uncertainty: confidence that matches what the reasoning supports, and is specific. Full confidence in a valid
proof is honest; hedging so that nothing could turn out wrong is not. 0: far more certain than its grounds allow, or
hedged until nothing is said. 25: a token caveat, or the same doubt about everything. 50: roughly the right confidence,
in vague words. 75: graded, with different confidence in different claims and grounds for each. 100: also says what
would change its mind, and how; certain where that is earned.
"""
"""The definitions by which the bundled examples were rated, in the words of their card, shortened."""
QUALITY = re.compile(r"^##[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
OVERALL = "overall"
"""The only quality of a rubric without headings."""
RESERVED = re.compile(
    r"quality|qualitative|reasons|stderr|mde|n|epochs|order_sd|spread|recency|agreement|position_shift|padded_gain|injection_gain|"
    r"self_preference|length_correlation|discriminates|distinct_ratings|clusters|effective_clusters|"
    r"(?:share|retest|parallel|anchor|drift|n)_.*|.*_(?:lower|upper)"
)
"""Names with another meaning in a score, a form or the metrics."""


@dataclass(frozen=True)
class Rubric:
    """A rubric and the form that it asks a judge to fill in."""

    text: str
    qualities: dict[str, str]
    """Heading of each quality by its name in scores, such as `willingness_to_doubt`."""
    form: type[ReasonedForm]
    """Reasons, and a whole number from 0 to 100 for each quality."""


def read_rubric(source: str) -> Rubric:
    """Read the built-in rubric or a file."""
    if source == "built-in":
        return parse_rubric(BUILT_IN, "the built-in rubric")
    return parse_rubric(read_text("rubric", source).replace("\r\n", "\n"), f"rubric={source}")


def read_text(argument: str, path: str) -> str:
    """Read the text file that an argument names, with its line ends unchanged."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:  # also too long for a path: the text itself was given in its place
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "there is no such file"
        raise BadInput(f"{argument}={path[:200]!r}: {why}; give the path of a text file in UTF-8") from None


def parse_rubric(text: str, where: str) -> Rubric:
    """Parse a rubric: its `##` headings are the qualities; without headings there is one overall rating."""
    problems = [] if re.search(r"\w", text) else ["it is empty; describe what to look for, under `## Name` headings"]
    qualities: dict[str, str] = {}
    for heading in QUALITY.findall(text):
        name = re.sub(r"\W+", "_", heading.lower()).strip("_")
        if not re.match(r"[a-z]", name) or not name.isascii():
            problems.append(f"the heading {heading!r} gives no name; begin it with a letter from a to z")
        elif RESERVED.fullmatch(name) or hasattr(ReasonedForm, name):
            problems.append(f"a quality cannot be called {heading!r}, a reserved name; rename it")
        elif name in qualities:
            problems.append(f"the headings {qualities[name]!r} and {heading!r} give the same name; rename one")
        qualities[name] = heading
    if problems:
        raise BadInput(f"{where}: {'; '.join(problems)}")
    qualities = qualities or {OVERALL: "the whole, by the rubric"}
    fields: dict[str, Any] = {name: (int, rating_field(heading)) for name, heading in qualities.items()}
    form: type[ReasonedForm] = create_model("Ratings", __base__=ReasonedForm, **fields)
    return Rubric(text.strip(), qualities, form)
