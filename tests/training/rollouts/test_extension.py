"""Extension: what a template adds to what was said, and where it says it otherwise."""

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.training.rollouts.extension import extension


@pytest.mark.parametrize(
    ("rendered", "known", "after"),
    [
        ("<u>Hi<a>Hello<e><u>More<a>", "<u>Hi<a>Hello", "<e><u>More<a>"),
        ("<u>Hi<a>Hello", "<u>Hi<a>Hello", ""),
        ("<u>Hi<a>Hello<e>\n<u>", "<u>Hi<a> Hello \n\n", "<e>\n<u>"),
        ("<u>Hi\n\n<a>\nHello<e>", "<u>Hi<a>Hello", "<e>"),
        ("Hello there", "", "Hello there"),
    ],
    ids=["plain", "nothing", "trimmed", "more blanks", "first"],
)
def test_what_comes_after(rendered: str, known: str, after: str) -> None:
    assert extension(rendered, known, "tiny") == after


@pytest.mark.parametrize(
    ("rendered", "had", "now", "place"),
    [
        ("<u>Hi<a>Hello<e>", "'Er. Hello'", "'Hello<e>'", 8),
        ("<u>Hi", "'<a>Er. Hello'", "''", 5),
        ("<s>Be.<u>Hi<a>Er. Hello<e>", "'u>Hi<a>Er. Hello'", "'s>Be.<u>Hi<a>Er. Hello<e>'", 1),
    ],
    ids=["dropped", "cut off", "put before"],
)
def test_where_they_part(rendered: str, had: str, now: str, place: int) -> None:
    with pytest.raises(BadInput) as error:
        extension(rendered, "<u>Hi<a>Er. Hello", "some/model")
    told = str(error.value).replace("\\[", "[")
    assert f"the model had {had}, and the template now writes {now} (character {place} of 17)" in told
    assert told.startswith("The chat template of some/model changes what was said earlier")
