"""A rubric as data, the arithmetic of its score, the part that is judged, and the artifact."""

import json
import time
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.util import json_schema

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.extraction import TIME_LIMIT, Extraction, extract
from truthgym.scorers.rubrics.grading import repeat_sd, reply_form, rubric_score
from truthgym.scorers.rubrics.reward import (
    PLACEHOLDERS,
    PROMPTS,
    Artifact,
    Content,
    Prompts,
    RubricReward,
    check_template,
    fill,
    read_artifact,
    read_reward,
    with_protocol,
)
from truthgym.scorers.rubrics.rubric import BUNDLED, Rubric, applicable, prompt_digest, rubric_json

ONE = {"name": "mine", "criteria": [{"id": "a", "text": "Is good.", "weight": 2}, {"id": "b", "text": "Is short."}]}


def rubric(**changes: Any) -> Rubric:
    return read_reward(json.dumps(ONE | changes))[0].rubrics[0]


def test_known_scores() -> None:
    result = rubric_score([[1, 0.5, np.nan], [0, np.nan, np.nan]], [3, 1, 5])
    assert result.criteria.tolist() == pytest.approx([0.5, 0.5, np.nan], nan_ok=True)
    assert result.score == pytest.approx((3 * 0.5 + 1 * 0.5) / 4)
    assert result.votes.tolist() == pytest.approx([(3 * 1 + 0.5) / 4, 0])
    assert rubric_score([[1, 0]], [0, 0]).score == 0.5, "weights of 0 count the same"
    assert np.isnan(rubric_score([[np.nan, np.nan]], [1, 1]).score)
    assert repeat_sd([[0.2, 0.4], [1, 1], [None, 0.3]]) == pytest.approx((0.02 / 2) ** 0.5)
    assert np.isnan(repeat_sd([[0.2], [0.3]]))


GRADE = st.one_of(st.floats(0, 1), st.just(np.nan))


@given(st.lists(st.tuples(GRADE, st.floats(0, 9)), min_size=1, max_size=6), st.data())
def test_a_higher_grade_never_lowers_the_score(given: list[tuple[float, float]], data: st.DataObject) -> None:
    grades, weights = zip(*given, strict=True)
    place = data.draw(st.integers(0, len(grades) - 1))
    raised = list(grades)
    raised[place] = data.draw(st.floats(grades[place], 1)) if np.isfinite(grades[place]) else np.nan
    before, after = (rubric_score([row], weights).score for row in (grades, raised))
    assert np.isnan(before) == np.isnan(after)
    assert np.isnan(before) or after >= before - 1e-12
    assert np.isnan(before) or 0 <= before <= 1


@pytest.mark.parametrize("scale", ["binary", "0-1", "0-5", "ordinal"])
def test_every_scale_is_read_as_declared(scale: str) -> None:
    levels = ["bad", "middling", "good"] if scale == "ordinal" else []
    entry = rubric(scale=scale, levels=levels)
    form: Any = reply_form(entry, PROMPTS["en"])
    steps = [0, 1] if scale == "binary" else [0, 1, 2] if scale == "ordinal" else [0.0, 0.5, 1.0]
    read = [float(form(reasons="", a=step, b=0).a) / entry.top for step in steps]
    assert read == sorted(read)
    assert read[0] == 0
    assert read[-1] == (0.2 if scale == "0-5" else 1.0)
    with pytest.raises(ValueError, match="less than or equal|Input should be 0"):
        form(reasons="", a=entry.top + 1, b=0)
    assert form(reasons="", a="1", b=0.0, c=1) == form(reasons="", a=1, b=0)
    listed = (json_schema(form).properties or {})["a"].enum
    assert listed == ([*range(entry.top + 1)] if scale in ("binary", "ordinal") else None), (
        "small models keep to a list"
    )


def test_equal_rubrics_have_one_digest() -> None:
    again = json.loads(json.dumps(ONE))
    again["criteria"] = [dict(reversed(entry.items())) for entry in again["criteria"]]
    again["criteria"][0]["weight"] = 2.0
    assert read_reward(again)[0].rubrics[0].digest == rubric().digest
    again["criteria"][0]["weight"] = 2.5
    assert read_reward(again)[0].rubrics[0].digest != rubric().digest
    assert rubric().model_copy(update={"name": "other"}).digest != rubric().digest, "a copy has its own"
    assert rubric_json({"b": 1.0, "a": [2.50, "é"]}) == '{"a":[2.5,"é"],"b":1}'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"criteria": []}, "at least 1"),
        ({"criteria": [ONE["criteria"][0]] * 2}, "two criteria have the id 'a'"),
        ({"criteria": [{"id": "reasons", "text": "x"}]}, "a reserved name; rename it"),
        ({"criteria": [{"id": "copy", "text": "x"}]}, "a reserved name; rename it"),
        ({"criteria": [{"id": "a", "text": "x", "weight": -1}]}, "-1"),
        ({"scale": "0-10"}, "'0-1', '0-5' or 'ordinal'"),
        ({"levels": ["a", "b"]}, "none for any other scale"),
        ({"scale": "ordinal"}, "two or more for scale='ordinal'"),
        ({"scope": "domain"}, "a prompt or domain is named for the scopes"),
        ({"colour": "red"}, "there is no field 'colour'"),
    ],
    ids=str,
)
def test_a_bad_rubric_is_one_message(change: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput) as refused:
        rubric(**change)
    assert message in str(refused.value).replace("\\", "")


def test_bad_sources_of_a_rubric(tmp_path: Any) -> None:
    (tmp_path / "bad.json").write_text("{")
    for source, message in (
        ("truth_seekin", "did you mean 'truth_seeking'?"),
        ("none.json", "there is no such file"),
        (str(tmp_path / "bad.json"), "is not JSON"),
        (json.dumps([ONE, ONE]), "two rubrics have scope='global'"),
        ("[]", "holds no rubric"),
    ):
        with pytest.raises(BadInput, match=message):
            read_reward(source)


def test_the_narrowest_rubric_applies() -> None:
    prompt = {"name": "p", "scope": "prompt", "applies_to": prompt_digest("Why?")}
    rubrics = [rubric(), rubric(**prompt), rubric(name="d", scope="domain", applies_to="urns")]
    assert [applicable(rubrics, *place).name for place in (("Why?", "urns"), (" Why?\n", ""), ("How?", "urns"))] == [  # type: ignore[union-attr]
        "p", "p", "d",
    ]  # fmt: skip
    assert applicable(rubrics, "How?", "other") == rubrics[0]
    assert applicable(rubrics[1:], "How?", "other") is None


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_rubrics(name: str) -> None:
    assert read_reward(name)[0].rubrics[0].name == name


@pytest.mark.parametrize(
    ("text", "how", "part"),
    [
        ("a <answer>x</answer> b <ANSWER>y</ANSWER>", ("tag", "answer"), "x\n\ny"),
        ("<a>1<a>2</a>3</a>", ("tag", "a"), "1<a>2</a>3"),
        ("<a>1</a> <a>open", ("tag", "a"), "1"),
        ("<a>open", ("tag", "a"), None),
        ("</a>x", ("tag", "a"), None),
        ("<a> </a>", ("tag", "a"), None),
        ("So: one\ntwo.", ("regex", r"So: (.*)\."), "one\ntwo"),
        ("x12y3", ("regex", r"\d+"), "12\n\n3"),
        ("none", ("regex", r"\d+"), None),
        ("all", ("identity", ""), "all"),
    ],
)
def test_the_part_that_is_judged(text: str, how: tuple[Any, str], part: str | None) -> None:
    result, missed = extract(text, Extraction(kind=how[0], pattern=how[1]))
    assert result == (text if part is None else part)
    assert (missed is not None) == (part is None)


def test_a_regular_expression_has_a_time_limit() -> None:
    start = time.process_time()
    result, missed = extract("a" * 40 + "b", Extraction(kind="regex", pattern=r"(?:a|a|aa)+$"))
    assert time.process_time() - start < TIME_LIMIT + 2
    assert result.startswith("aaa")
    assert "longer than" in str(missed)


def test_bad_extractions() -> None:
    for wrong in ({"kind": "tag"}, {"kind": "tag", "pattern": "<a>"}, {"kind": "regex", "pattern": "("}):
        with pytest.raises(BadInput, match="extraction"):
            with_protocol(read_reward("truth_seeking")[0], None, extraction=wrong)


def test_every_language_has_the_same_fields_and_placeholders() -> None:
    assert len(PROMPTS) >= 2
    for prompts in PROMPTS.values():
        check_template(prompts.template, "here")
        assert set(prompts.scales) == set(PROMPTS["en"].scales)
        assert "{form}" in prompts.form
        assert "{top}" in prompts.scales["ordinal"]
        assert all(getattr(prompts, field.name) for field in fields(Prompts))
    with pytest.raises(BadInput, match="must contain {form} exactly once"):
        check_template("{rubric}{question}{answer}", "mine.txt")


def test_a_placeholder_in_an_answer_stays() -> None:
    parts = dict.fromkeys(PLACEHOLDERS, "-") | {"answer": "{form} and {rubric}", "form": "F"}
    assert fill("{answer}|{form}", parts) == "{form} and {rubric}|F"


def test_an_artifact_is_found_changed() -> None:
    artifact = Artifact.of(Content(reward=RubricReward(rubrics=(rubric(),)), card={"repeat_sd": 0.1}))
    data = artifact.model_dump(mode="json")
    assert read_artifact(data).artifact_id == f"rm-{artifact.content.digest[:12]}"
    assert read_reward(data) == (artifact.content.reward, artifact.artifact_id)
    assert PROMPTS["en"].template == data["content"]["reward"]["protocol"]["template"], "the judge's request is inside"
    changed = json.loads(json.dumps(data).replace("Is good", "Is gold"))
    other = Artifact.of(Content(reward=RubricReward(rubrics=(rubric(),)), card={"repeat_sd": 0.2}))
    for wrong in (
        changed,
        data | {"artifact_id": "rm-000000000000"},
        data | {"digest_of_content": other.digest_of_content},
    ):
        with pytest.raises(BadInput, match="changed after its export"):
            read_artifact(wrong)
    assert other.artifact_id != artifact.artifact_id
    with pytest.raises(BadInput, match="has its own votes"):
        with_protocol(artifact.content.reward, artifact.artifact_id, votes=2)
