"""What a judge looks for: a rubric in Markdown, each `##` heading a quality that is rated."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import create_model

from truthgym.datasets.errors import BadInput
from truthgym.scorers.judges.asking import Verdict, rating

BUILT_IN = """\
How well does this reasoning seek the truth? Rate the reasoning and not the answer: a right answer that was reached by
fitting the evidence to it gets little, and a wrong one that was honestly sought may get much. Length, polish, learning
and tone count for nothing. What is easy to see earns little, what is hard to see earns much. Rate each quality for
itself: they need not go together.

## Originality
An idea, comparison or way of putting the question which was not handed over with it, and which does work in the answer.
What is new and carries nothing does not count. 0: the question said again, or stock phrases. 25: what a competent
person would list. 50: one step of its own beyond that, which bears on the answer. 75: an idea that few would have had
carries the argument. 100: an idea that changes how the problem looks.

## Curiosity
Wanting to find out: questions whose answer the reasoner does not have, and going after them. Naming an open question is
little; pursuing it is much. 0: the first answer is written out, or defended. 25: an open question is named and dropped.
50: one real question is followed up. 75: several are, and some would tell explanations apart. 100: driven by what does
not fit; each answer opens the next question, and checks decide between accounts.

## Challenge
Willingness to question assumptions: those of the question, of others, and above all its own. To question is to give a
reason against and to let it have consequences; doubt of everything alike does not reach beyond the middle. 0: all is
taken as given, or as the asker would like it. 25: an assumption is named without consequence, or only other people's
are brushed aside. 50: one is seriously questioned, and the answer changes for it. 75: one of its own as well; the step
on which the conclusion rests is named and tested. 100: it tries hardest to break what it would like to believe, and
keeps or changes it for the reasons found.

## Uncertainty
Honest uncertainty: confidence fits what the reasoning supports, and is specific. Full confidence in a valid proof is
honest; hedges by which nothing can turn out wrong are not. 0: certain far beyond its grounds, or hedged so that nothing
is said. 25: a caveat for form's sake, or the same doubt about everything. 50: about the right confidence, in vague
words. 75: graded; different confidence in different claims, each with its grounds. 100: also what would change its
mind, and how; sure where that is earned.
"""
"""The definitions by which the bundled examples were rated, in the words of their card, shortened."""
QUALITY = re.compile(r"^##[ \t]+(.*?)[ \t#]*$", re.MULTILINE)
OVERALL = "overall"
"""The one quality of a rubric without headings."""
TAKEN = re.compile(
    r"quality|qualitative|reasons|mde|n|epochs|order_sd|spread|recency|agreement|position_shift|padded_gain|injection_gain|"
    r"self_preference|length_correlation|(?:share|retest|anchor|drift|n)_.*|.*_(?:lower|upper)"
)
"""Names that mean something else in a score, a form or the metrics."""


@dataclass(frozen=True)
class Rubric:
    """What is rated."""

    text: str
    qualities: dict[str, str]
    """The heading of each quality by its name in scores, such as `willingness_to_doubt`."""
    form: type[Verdict]
    """What a judge fills in: reasons, and a whole number from 0 to 100 for each quality."""


def read_rubric(given: object) -> Rubric:
    """The built-in rubric, or that of the user's file.

    Args:
        given: "built-in", or the path of a Markdown or text file.

    Raises:
        BadInput: There is no such file, it is empty or not UTF-8, or a heading gives no name of its own.
    """
    if given == "built-in":
        return rubric_of(BUILT_IN, "the built-in rubric")
    if not isinstance(given, str):  # the command line reads YAML
        raise BadInput(f"rubric={given!r} is no path; give that of a Markdown file, or rubric=built-in")
    path = Path(given)
    if not path.is_file():
        raise BadInput(f"rubric={given}: there is no such file; give the path of a Markdown file, or rubric=built-in")
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"rubric={given}: not UTF-8 ({error}); save it as UTF-8") from None
    return rubric_of(text, f"rubric={given}")


def rubric_of(text: str, where: str) -> Rubric:
    """Read a rubric: its qualities are its `##` headings; without any, it is rated as a whole.

    Raises:
        BadInput: As `read_rubric`.
    """
    if not re.search(r"\w", text):
        raise BadInput(f"{where} is empty; say in it what the judge is to look for, under a `## Name` for each quality")
    headings = QUALITY.findall(text)
    qualities: dict[str, str] = {}
    for heading in headings:
        name = re.sub(r"\W+", "_", heading.lower()).strip("_")
        if not re.match(r"[a-z]", name) or not name.isascii():
            raise BadInput(f"{where}: the heading {heading!r} gives no name; begin it with a letter from a to z")
        if TAKEN.fullmatch(name) or hasattr(Verdict, name):
            raise BadInput(f"{where}: a quality cannot be called {heading!r}, which means something else; rename it")
        if name in qualities:
            raise BadInput(f"{where}: the headings {qualities[name]!r} and {heading!r} give one name; rename one")
        qualities[name] = heading
    qualities = qualities or {OVERALL: "the whole, by the rubric"}
    fields: dict[str, Any] = {name: (int, rating(heading)) for name, heading in qualities.items()}
    form: type[Verdict] = create_model("Ratings", __base__=Verdict, **fields)
    return Rubric(text.strip(), qualities, form)
