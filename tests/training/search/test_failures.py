"""What a search does when a model fails, and what never reaches its files."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

from tests.fixtures import says
from tests.training.search.test_search import SMALL, few, named, searching, without_ranks
from truthgym.cli.rubric import command
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.quality_markers import TOPICS
from truthgym.scorers.rubrics.reward import ModelSpec, Protocol
from truthgym.serve.spec import RewardSpec
from truthgym.training.files import folder_lock
from truthgym.training.lineage import Lineage
from truthgym.training.rubric_search import rubric_search
from truthgym.training.search.candidates import Prompts, bundled, make_labels, split_prompts
from truthgym.training.search.rubric_scores import Scores


def test_labels_that_could_not_be_made_are_not_kept(tmp_path: Path) -> None:
    prompts = without_ranks(few(2, 3))
    down = True

    def reply(_: object) -> str:
        if down:
            raise ConnectionError("down")
        return answer

    answer = '{"reasons": "So.", "first_is_better": 80}'
    judge = says(reply)
    with pytest.raises(BadInput, match="repeat the command"):
        asyncio.run(make_labels(prompts, judge, tmp_path))
    down = False
    with pytest.raises(BadInput, match="ordered no pair"):  # it prefers whatever comes first
        asyncio.run(make_labels(prompts, judge, tmp_path))
    assert not list(tmp_path.iterdir())


def test_labels_with_a_gap_are_not_kept(tmp_path: Path) -> None:
    prompts = without_ranks(few(2, 3))
    better, unread = prompts[0].candidates[0].text, prompts[1].candidates[0].text

    def reply(messages: Any) -> str:
        shown = messages[0].text
        if not answered and unread in shown:
            return "I have no view."
        return json.dumps({"reasons": "So.", "first_is_better": 90 if f"<first_reply>\n{better}" in shown else 10})

    for answered in (False, True):
        labels, _ = asyncio.run(make_labels(prompts, says(reply), tmp_path))
        missing = [np.isnan(label[np.triu_indices(3, 1)]).sum() for label in labels.values()]
        assert (missing, len(list(tmp_path.iterdir()))) == (([0, 0], 1) if answered else ([0, 2], 0))


def test_scores_without_a_vote_are_asked_for_again(tmp_path: Path) -> None:
    prompts = few(2, 3)
    labels, _ = asyncio.run(make_labels(prompts, None, tmp_path))
    unread = prompts[0].candidates[1].text

    def reply(messages: Any) -> str:
        return "I have no view." if unread in messages[-1].text and not answered else '{"reasons": "So.", "c0": 1}'

    judge = says(reply)
    for answered in (False, True):
        scores = Scores(Protocol(votes=1), [judge], labels, tmp_path / "scores.jsonl")
        asyncio.run(scores.score(named(TOPICS[0]), prompts))
        assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 1 + answered


def test_a_verifier_that_was_down_leaves_nothing_behind(tmp_path: Path) -> None:
    prompts = few(2, 3)
    labels, _ = asyncio.run(make_labels(prompts, None, tmp_path))
    down: list[str] = [prompts[0].candidates[1].text, prompts[1].candidates[0].text]

    def reply(messages: Any) -> str:
        if any(text in messages[-1].text for text in down):
            raise ConnectionError("down")
        return '{"reasons": "So.", "c0": 1}'

    def score() -> list[Any]:
        scores = Scores(Protocol(votes=2), [says(reply)], labels, tmp_path / "scores.jsonl")
        return [prompt.scores.tolist() for prompt in asyncio.run(scores.score(named(TOPICS[0]), prompts))]

    with pytest.raises(BadInput, match="repeat the command"):
        score()
    down.pop()
    with pytest.raises(BadInput, match="repeat the command"):
        score()
    assert len((tmp_path / "scores.jsonl").read_text().splitlines()) == 1, "of the prompt that has its votes"
    assert "null" not in (tmp_path / "scores.jsonl").read_text()
    old = json.dumps({"key": "k", "rubric": "r", "scores": [[None, []], [1.0, [1.0, 1.0]]]})
    down.clear()
    assert score() == [[1] * 3] * 2
    (tmp_path / "scores.jsonl").write_text(old + "\n")
    assert Scores(Protocol(), [says(reply)], labels, tmp_path / "scores.jsonl")._graded == {}


@pytest.mark.parametrize(("error", "status"), [(ConnectionError("down"), "failed"), (KeyboardInterrupt(), "cancelled")])
def test_a_search_that_does_not_end_is_recorded(
    error: BaseException, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fails(*_: Any) -> None:
        (tmp_path / "out" / "prompts.json").write_text("{}")
        raise error

    with folder_lock(tmp_path / "out"), pytest.raises(BadInput, match="out is in use by another command"):
        rubric_search("bundled", tmp_path / "out", SMALL)
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr("truthgym.training.rubric_search._run_search", fails)
    with pytest.raises(type(error)):
        rubric_search("bundled", tmp_path / "out", SMALL)
    (statement,) = Lineage([tmp_path / "out"]).statements.values()
    assert (statement.event, statement.status) == ("search", status)
    assert type(error).__name__ in statement.failure
    assert Lineage([tmp_path / "out"]).faults() == []


def test_a_prompt_whose_answers_all_tie_ends_no_search() -> None:
    prompt = few(2, 3)[0]
    ranks = tuple(candidate.model_copy(update={"metadata": {"rank": 1}}) for candidate in prompt.candidates)
    tied = [prompt.model_copy(update={"candidates": ranks})]
    search = searching(tied, SMALL.model_copy(update={"scope": "prompt_local", "generations": 1}))
    asyncio.run(search.run())
    (row,) = json.loads(json.dumps(search.state["history"], allow_nan=False))
    assert (row["tail_acc"], row["best"]) == (None, pytest.approx(0.625, abs=0.2))


def test_with_one_prompt_a_gain_must_be_worth_a_pair() -> None:
    prompts = few(2, 8)[:1]
    search = searching(prompts, SMALL.model_copy(update={"patience": 1}))
    before = asyncio.run(search.measure(named(*TOPICS[:5])))
    assert before.worth_of_a_pair == pytest.approx(1.25 / (before.pairs + 8))
    search.state["population"] = [named(*TOPICS[:5]).model_dump(mode="json")]
    for share, stops in ((0.9, True), (1.1, False)):
        search.state |= {"stagnation": 0, "stopped": ""}
        gain = np.array([before.worth_of_a_pair * share])
        search._record(before, replace(before, by_prompt=before.by_prompt + gain), 0.0, 1)
        assert bool(search.state["stopped"]) == stops


def test_a_text_is_on_one_side() -> None:
    first, *rest = bundled(prompts=6).prompts
    for order in ([first, *rest], [*rest, first]):
        same_text = first.model_copy(update={"prompt_id": "again", "prompt": f" {first.prompt}\n"})
        prompts = Prompts(prompts=(*order, same_text))
        searched, held_out = split_prompts(prompts, 0.5)
        sides = [{p.prompt_id for p in side} for side in (searched, held_out)]
        assert any({first.prompt_id, "again"} <= side for side in sides)
        assert len(searched) + len(held_out) == 7
    with pytest.raises(BadInput, match="same text"):
        split_prompts(Prompts(prompts=(first, first.model_copy(update={"prompt_id": "again"}))), 0.5)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ("model_args: {api_key: hush}", "api_key"),
        ("config: {extra_headers: {Authorization: hush}}", "Authorization"),
        ("model_args: {client: {dbPassword: hush}}", "dbPassword"),
        ("model_args: {other: [{x: sk-hush-hush-hush}]}", "x"),
        ("model_args: {base_url: 'https://me:hush@example.com/v1'}", "base_url"),
    ],
)
def test_a_key_reaches_no_file(tmp_path: Path, settings: str, field: str) -> None:
    spec = f"{{model: mockllm/model, {settings}}}"
    for option in ("--verifier", "--proposer", "--initializer", "--judge"):
        result = CliRunner().invoke(command, ["search", "--out", str(tmp_path / "out"), option, spec])
        assert f"{field} looks like a key" in str(result.exception)
        assert "hush" not in str(result.exception)
    assert not list(tmp_path.rglob("*"))
    with pytest.raises(BadInput, match=f"{field} looks like a key"):
        RewardSpec(scorer="graded", roles={"grader": yaml.safe_load(spec)})
    plain = {"tokenizer_path": "a", "max_tokens": 5, "base_url": "http://localhost:8080/v1"}  # these are no keys
    assert ModelSpec(model="hf/m", model_args=plain, config={"max_tokens": 9}).config == {"max_tokens": 9}
