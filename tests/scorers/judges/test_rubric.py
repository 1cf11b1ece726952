"""What a rubric asks for: the built-in one, the user's, and what cannot be one."""

from pathlib import Path

import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.rated_trajectories import QUALITIES
from truthgym.scorers.judges.asking import form_instruction, parse_form
from truthgym.scorers.judges.rubric import BUILT_IN, RESERVED, parse_rubric, read_rubric
from truthgym.scorers.statistics.judge_reliability import summarise


def test_the_built_in_rubric_matches_the_bundled_ratings() -> None:
    rubric = read_rubric("built-in")
    assert tuple(rubric.qualities) == QUALITIES
    assert rubric.text == BUILT_IN.strip()
    assert list(rubric.form.model_fields) == ["reasons", *QUALITIES]


def test_headings_of_a_file_are_the_qualities(tmp_path: Path) -> None:
    file = tmp_path / "rubric.md"
    file.write_text("# Mine\nSay.\n## Willingness to doubt\nDoes it?\n##  Depth ##\nHow deep?\n### Not one\n")
    rubric = read_rubric(str(file))
    assert rubric.qualities == {"willingness_to_doubt": "Willingness to doubt", "depth": "Depth"}
    form = parse_form('{"reasons": "So.", "willingness_to_doubt": 3, "depth": 100}', rubric.form)
    assert not isinstance(form, str)
    assert isinstance(parse_form('{"reasons": "So.", "willingness_to_doubt": 3, "depth": 101}', rubric.form), str)
    assert isinstance(parse_form('{"reasons": "So.", "willingness_to_doubt": 3}', rubric.form), str)
    assert '"willingness_to_doubt": <whole number from 0 to 100: Willingness to doubt>' in form_instruction(rubric.form)


def test_without_headings_one_rating_is_asked_for() -> None:
    assert list(parse_rubric("Is it any good?", "here").qualities) == ["overall"]


REFUSED = {
    "empty": ("", "is empty"),
    "blank": (" \n\n ", "is empty"),
    "twice": ("## Depth\n## depth!\n", "'Depth' and 'depth!' give the same name"),
    "taken": ("## Quality\n", "cannot be called 'Quality'"),
    "bound": ("## Depth lower\n", "cannot be called"),
    "figure": ("## Agreement\n", "cannot be called"),
    "number of": ("## N of points\n", "cannot be called"),
    "of a form": ("## Model dump\n", "cannot be called"),
    "of its class": ("## Model config\n", "cannot be called"),
    "number": ("## 1\n", "gives no name"),
    "nameless": ("## ...\nSay.\n", "gives no name"),
}


@pytest.mark.parametrize("name", list(REFUSED))
def test_what_is_no_rubric_is_refused(name: str, tmp_path: Path) -> None:
    text, message = REFUSED[name]
    file = tmp_path / "rubric.md"
    file.write_text(text)
    with pytest.raises(BadInput, match=message) as error:
        read_rubric(str(file))
    assert str(file) in str(error.value)


def test_a_file_that_is_not_there_or_not_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no such file"):
        read_rubric("built_in")
    with pytest.raises(BadInput, match="there is no such file"):
        read_rubric(str(tmp_path))
    (tmp_path / "latin.md").write_bytes(b"## Na\xefve\n")
    with pytest.raises(BadInput, match="UTF-8"):
        read_rubric(str(tmp_path / "latin.md"))


def test_names_of_metrics_are_reserved() -> None:
    for name in summarise([]):
        assert RESERVED.fullmatch(name), name
    assert not any(RESERVED.fullmatch(name) for name in QUALITIES)


def test_a_mark_at_the_beginning_of_the_file_hides_no_heading(tmp_path: Path) -> None:
    file = tmp_path / "rubric.md"
    file.write_bytes("\ufeff## Depth\r\nHow deep?\r\n## Breadth\r\n".encode())
    assert list(read_rubric(str(file)).qualities) == ["depth", "breadth"]
