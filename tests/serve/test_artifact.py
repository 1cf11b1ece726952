"""A rubric artifact and a reward model behind the server, and what keeps it answering meanwhile."""

import asyncio
import json
import logging
import os
import threading
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.model import Model

from tests.serve.asking import BRIER, MODEL_GRADER, Stub, artifact, ask, item, server, web
from tests.serve.test_guards import ADMIN, TOKENS
from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.reward import ModelSpec, RubricReward, read_artifact, read_reward
from truthgym.scorers.rubrics.rubric import prompt_digest
from truthgym.serve import server as server_module
from truthgym.serve.service.access import RequestLog
from truthgym.serve.service.rates import Rates
from truthgym.serve.service.scoring import Item, Result, Source
from truthgym.serve.spec import RewardSpec


def judged_by(judge: ModelSpec) -> RubricReward:
    return read_reward("truth_seeking")[0].model_copy(update={"judges": (judge,)})


def test_an_artifacts_judges_have_the_servers_limits(tmp_path: Path) -> None:
    judge = ModelSpec.model_validate({"model": "mockllm/model", "temperature": 0.5, "config": {"top_p": 0.9}})
    assert judge.config == {"temperature": 0.5, "top_p": 0.9}
    source = Source(artifact(tmp_path, judged_by(judge)), max_connections=7)
    (loaded,) = source.roles["judge"]  # type: ignore[misc]
    assert isinstance(loaded, Model)
    config = loaded.config
    assert (config.max_connections, config.max_retries, config.temperature) == (7, 1, 0.5)
    with pytest.raises(BadInput, match="temprature is no setting"):
        Source(RewardSpec(scorer="graded", options={"grader": "model"},
                          roles={"grader": {"model": "mockllm/model", "config": {"temprature": 1}}}))  # fmt: skip
    with pytest.raises(BadInput, match="cannot be made"):
        Source(RewardSpec(scorer="graded", options={"grader": "model"}, roles={"grader": "no-such-provider/m"}))


def test_the_server_answers_during_a_swap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slow.json").write_text(json.dumps({"scorer": "graded", "options": {"grader": "plain"}}))
    answered = threading.Event()

    def slow(spec: RewardSpec, concurrency: int, rates: Rates) -> Source:
        assert answered.wait(60), "no answer during the swap"
        if spec.scorer == "broken":
            raise ImportError("no such library")
        return Source(spec, concurrency)

    monkeypatch.setattr(server_module, "Source", slow)
    served = server(specs=tmp_path, tokens=TOKENS)

    async def talk() -> list[int]:
        async with web(served, authorization=f"Bearer {ADMIN}") as http:
            swap = asyncio.create_task(http.post("/admin/artifact", json={"name": "slow"}))
            live = (await http.get("/livez")).status_code
            answered.set()
            return [live, (await swap).status_code]

    assert asyncio.run(talk()) == [200, 200]
    assert served.source.spec.options == {"grader": "plain"}
    (tmp_path / "broken.json").write_text(json.dumps({"scorer": "broken"}))
    (response,) = ask(served, ("/admin/artifact", {"name": "broken"}), authorization=f"Bearer {ADMIN}")
    assert (response.status_code, served.source.spec.options) == (422, {"grader": "plain"})


def test_an_error_of_a_scorer_can_be_found(caplog: pytest.LogCaptureFixture) -> None:
    served = server(BRIER)

    async def broken(*_: Any) -> Any:
        return dict[str, int]()["the-clients-text"]

    served.source.scorer = broken  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR):
        (response,) = ask(served, ("/score", item("y")))
    assert response.json()["error"]["code"] == "internal"
    assert "KeyError" in caplog.text
    assert "in broken" in caplog.text
    assert "the-clients-text" not in caplog.text.replace('dict[str, int]()["the-clients-text"]', "")


def test_a_full_disk_ends_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = server(log=RequestLog(tmp_path / "log"))
    Stub(served)
    real, lengths = os.write, []

    def partly(file: int, content: bytes) -> int:
        lengths.append(len(content))
        if len(lengths) > 20:
            raise OSError(28, "No space left on device")
        return real(file, content[:40])

    monkeypatch.setattr(os, "write", partly)
    responses = ask(served, ("/score", item("a")), ("/score", item("bb")))
    assert [response.status_code for response in responses] == [200, 200]
    first = json.loads((tmp_path / "log").read_text().splitlines()[0])
    assert first["rewards"] == [1.0]


def test_a_reward_in_the_process_is_in_the_lineage_too(tmp_path: Path) -> None:
    from truthgym.training.reward_functions.resolve import resolve_rewards
    from truthgym.training.rollouts.questions import load_questions
    from truthgym.training.rollouts.trainer import _sources

    path = str(artifact(tmp_path, judged_by(ModelSpec(model="reference/judge"))).options["rubric"])
    exported = read_artifact(path)
    questions = load_questions("truthgym/urns", {"n": 20, "paradigms": {"rubric": {"rubric": path}, "brier": {}}})
    program = tmp_path / "mine.py"
    program.write_text("def reward(prompts, completions, **columns):\n    return [0.0] * len(prompts)\n")
    rewards = resolve_rewards(["rubric", "brier", f"{program}:reward"], {questions.registered: questions.scorers})
    assert _sources(rewards, [questions]) == {
        f"artifact:{exported.artifact_id}": exported.content.digest,
        str(program): sha256(program.read_bytes()).hexdigest(),
    }


def by_prompt(folder: Path, unknown: str, with_global: bool = True) -> RewardSpec:
    """Rubrics for one prompt and, if wanted, for all."""
    wide = read_reward("truth_seeking")[0].rubrics[0]
    own = wide.model_copy(update={"name": "own", "scope": "prompt", "applies_to": prompt_digest("Will it rain?")})
    rubrics = (own, wide) if with_global else (own,)
    reward = RubricReward(rubrics=rubrics, judges=(ModelSpec(model="reference/judge"),))
    return artifact(folder, reward, unknown_prompt=unknown)


@pytest.mark.parametrize("with_global", [True, False])
def test_a_prompt_without_a_rubric_of_its_own_is_an_error(tmp_path: Path, with_global: bool) -> None:
    items = [item("Perhaps."), item("Perhaps.", prompt="Will it snow?")]
    served = server(by_prompt(tmp_path, "error", with_global))
    known, other, both = ask(served, ("/score", items[0]), ("/score", items[1]), ("/batch_score", {"items": items}))
    assert (known.status_code, known.json()["error"]) == (200, None)
    assert (other.status_code, other.json()["reward"]) == (422, None)
    assert other.json()["error"]["code"] == "unknown_prompt"
    assert [result["ok"] for result in both.json()["results"]] == [True, False]
    assert 'truthgym_items_total{outcome="unknown_prompt"} 1.0' in served.metrics.text().decode()


def test_or_it_is_scored_by_the_global_rubric_which_is_said_and_counted(tmp_path: Path) -> None:
    served = server(by_prompt(tmp_path, "global"))
    known, other = ask(served, ("/score", item("Perhaps.")), ("/score", item("Perhaps.", prompt="Will it snow?")))
    assert "fallback" not in known.json()
    assert (other.status_code, other.json()["fallback"]) == (200, "global")
    assert other.json()["reward"] is not None
    assert "truthgym_fallbacks_total 1.0" in served.metrics.text().decode()
    refusing, alone = by_prompt(tmp_path, "error"), by_prompt(tmp_path, "global", with_global=False)
    assert refusing.digest != served.source.digest, "the policy decides rewards, so it is in the digest"
    (none,) = ask(server(alone), ("/score", item("Perhaps.", prompt="Will it snow?")))
    assert none.json()["error"]["code"] == "unknown_prompt"


def test_models_are_closed_after_a_swap_when_their_last_item_is_scored(tmp_path: Path) -> None:
    (tmp_path / "plain.json").write_text(json.dumps({"scorer": "graded", "options": {"grader": "plain"}}))
    served = server(MODEL_GRADER, specs=tmp_path, tokens=TOKENS)
    former, closed = served.source, []
    model = former.roles["grader"]
    assert isinstance(model, Model)
    scoring, swapped = asyncio.Event(), asyncio.Event()

    async def close() -> None:
        closed.append(len(served.pool.running))

    async def score(long_item: Item) -> Result:
        scoring.set()
        await swapped.wait()
        assert closed == [], "closed while an item needs it"
        return Result(score=1.0, reward=1.0)

    model.api.aclose = close  # type: ignore[method-assign]
    former.score = score  # type: ignore[method-assign, assignment]

    async def talk() -> float:
        async with web(served, authorization=f"Bearer {ADMIN}") as http:
            open_request = asyncio.create_task(http.post("/score", json=item("Yes.")))
            await scoring.wait()
            assert (await http.post("/admin/artifact", json={"name": "plain"})).status_code == 200
            assert closed == []
            swapped.set()
            reward: float = (await open_request).json()["reward"]
            while served.pool._closing:
                await asyncio.gather(*served.pool._closing)
            return reward

    assert asyncio.run(talk()) == 1.0
    assert closed == [0], "closed once, after its last item"
