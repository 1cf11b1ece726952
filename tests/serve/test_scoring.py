"""The server's number is that of `inspect score`, whatever comes with it in a request."""

from typing import Any

import pytest
from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import get_model

from tests.fixtures import Says
from tests.serve.asking import BRIER, MODEL_GRADER, ask, item, rewards, server
from truthgym.datasets.errors import BadInput
from truthgym.serve.service.scoring import Source
from truthgym.serve.spec import RewardSpec


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EvalLog:
    from inspect_ai import eval

    from truthgym.solvers.direct import direct
    from truthgym.tasks.urns import urns

    task = urns(n=3, paradigms="brier")
    folder = str(tmp_path_factory.mktemp("logs"))
    return eval(task, solver=direct(), model="reference/bayesian", epochs=2, display="log", log_dir=folder)[0]


def sent(log: EvalLog) -> list[dict[str, Any]]:
    return [
        {
            "id": str(one.id),
            "epoch": one.epoch,
            "question": one.input,
            "prompt": [{"role": message.role, "content": message.text} for message in one.messages[:-1]],
            "response": one.output.completion,
            "target": one.target,
            "metadata": one.metadata,
        }
        for one in log.samples or []
    ]


@pytest.mark.parametrize("grader", ["python_brier", "model_brier", "model"])
def test_the_number_is_that_of_inspect_score(log: EvalLog, grader: str) -> None:
    role = {"model": "reference/judge", "model_args": {"noise": 0.1}}
    roles = {} if grader == "python_brier" else {"grader": role}
    spec = RewardSpec(scorer="graded", options={"grader": grader}, roles=roles)
    (response,) = ask(server(spec), ("/batch_score", {"items": sent(log)}))
    models: Any = {"grader": get_model("reference/judge", noise=0.1, memoize=False)} if roles else None
    scored = score(log, Source(spec).scorer, model_roles=models, action="overwrite", display="log", copy=True)
    expected = [next(iter((one.scores or {}).values())).value["grade"] for one in scored.samples or []]  # type: ignore[call-overload, index]
    results = response.json()["results"]
    assert [one["score"] for one in results] == expected
    sign = 1 if grader == "model" else -1
    assert [one["reward"] for one in results] == [sign * value for value in expected]
    assert len(set(expected)) > 2


def test_an_answer_that_cannot_be_read_has_the_lowest_reward_and_no_score() -> None:
    items = [item("I think so."), item(""), item(r"\finalBeliefProb{0.8}")]
    (response,) = ask(server(), ("/batch_score", {"items": items}))
    unread, empty, read = response.json()["results"]
    assert (unread["score"], unread["reward"], unread["ok"]) == (None, -1, False)
    assert unread["error"]["code"] == empty["error"]["code"] == "unread"
    assert "finalBeliefProb" in unread["error"]["reason"]
    assert read["score"] == pytest.approx(0.04)
    assert read["reward"] == -read["score"]


def test_a_failing_judge_is_no_score(says: Says) -> None:
    def reply(messages: list[Any]) -> str:
        if "unreachable" in messages[-1].text:
            raise ConnectionError("no route with sk-secret")
        return "not a form" if "odd" in messages[-1].text else '{"reasons": "so", "grade": 40}'

    served = server(MODEL_GRADER)
    served.source.roles = {"grader": says(reply)}
    items = [item("good"), item("unreachable"), item("odd")]
    (response,) = ask(served, ("/batch_score", {"items": items}))
    assert response.status_code == 200
    assert rewards(response) == [0.4, None, None]
    assert [one["score"] for one in response.json()["results"]] == [0.4, None, None]
    codes = [(one["error"]["code"], one["error"]["retryable"]) for one in response.json()["results"][1:]]
    assert codes == [("judge_failed", True), ("judge_reply", False)]
    assert "secret" not in response.text


def test_a_question_without_a_truth_has_no_reward() -> None:
    (response,) = ask(server(), ("/score", item(r"\finalBeliefProb{0.8}", target="")))
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "not_applicable"
    assert response.json()["reward"] is None


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        (RewardSpec(scorer="grated"), "known: .*graded"),
        (RewardSpec(scorer="graded", options={"grader": "modle"}), "did you mean 'model'"),
        (RewardSpec(scorer="graded", options={"grader": "model"}), "--model-role grader=MODEL"),
        (RewardSpec(scorer="graded", reward="graded:up"), "use graded:lowest"),
        (RewardSpec(scorer="brier", reward="brier:highest"), "would reward being wrong"),
        (RewardSpec(scorer="graded", options={"grader": "model"}, roles={"grader": 3}), "names no model"),
    ],
)
def test_a_specification_that_cannot_be_served(spec: RewardSpec, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        Source(spec)


def test_the_digest_follows_the_files(tmp_path: Any) -> None:
    file = tmp_path / "rubric.txt"
    file.write_text("Be brief.")
    spec = RewardSpec(scorer="graded", options={"grader": "model", "rubric": str(file)})
    before = spec.digest
    assert len(before) == 64
    assert before != BRIER.digest
    file.write_text("Be long.")
    assert spec.digest != before
