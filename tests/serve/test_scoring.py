"""The server's number is that of `inspect score`, whatever comes with it in a request."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from time import process_time
from typing import Any

import pytest
from inspect_ai import score
from inspect_ai.log import EvalLog
from inspect_ai.model import ModelOutput, StopDetails, get_model

from tests.fixtures import evaluate, says
from tests.serve.asking import JUDGE, MODEL_GRADER, artifact, ask, item, rewards, server
from truthgym.datasets.errors import BadInput
from truthgym.datasets.redaction import redact
from truthgym.scorers.beliefs.escaping import material
from truthgym.scorers.beliefs.parsing import read_belief, read_beliefs
from truthgym.scorers.graders.builtin import opens_hollow
from truthgym.scorers.judges.asking import Form, parse_form
from truthgym.scorers.judges.reasoning_quality import mask_conclusion
from truthgym.scorers.rubrics.extraction import Extraction, extract
from truthgym.scorers.rubrics.reward import Artifact, Content, ModelSpec, read_reward
from truthgym.serve.server import Server
from truthgym.serve.service.scoring import Source
from truthgym.serve.service.trainer_requests import conversation, without_end
from truthgym.serve.spec import RewardSpec
from truthgym.solvers.direct import direct
from truthgym.solvers.length_control import length_of
from truthgym.solvers.thoughts import split_thought
from truthgym.solvers.trajectory import opens_with_refusal
from truthgym.solvers.workers import answers_in
from truthgym.tasks.worlds import urns

JUDGES = ("judge", "grader")
SLIME = {"prompt": "Will it rain?", "response": "Perhaps.", "label": "yes"}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> EvalLog:
    folder = tmp_path_factory.mktemp("logs")
    return evaluate(urns(n=3, paradigms="brier"), "reference/bayesian", folder, solver=direct(), epochs=2)[0]


def items_of(log: EvalLog) -> list[dict[str, Any]]:
    return [
        {
            "id": str(sample.id),
            "epoch": sample.epoch,
            "question": sample.input,
            "prompt": [{"role": message.role, "content": message.text} for message in sample.messages[:-1]],
            "response": sample.output.completion,
            "target": sample.target,
            "metadata": sample.metadata,
        }
        for sample in log.samples or []
    ]


@pytest.mark.parametrize("grader", ["python_brier", "model_brier", "model"])
def test_the_number_is_that_of_inspect_score(log: EvalLog, grader: str) -> None:
    role = {"model": "reference/judge", "model_args": {"noise": 0.1}}
    roles = {} if grader == "python_brier" else {"grader": role}
    spec = RewardSpec(scorer="graded", options={"grader": grader}, roles=roles)
    (response,) = ask(server(spec), ("/batch_score", {"items": items_of(log)}))
    models: Any = {"grader": get_model("reference/judge", noise=0.1, memoize=False)} if roles else None
    scored = score(log, Source(spec).scorer, model_roles=models, action="overwrite", display="log", copy=True)
    expected = [next(iter((sample.scores or {}).values())).value["grade"] for sample in scored.samples or []]  # type: ignore[call-overload, index]
    results = response.json()["results"]
    assert [result["score"] for result in results] == expected
    sign = 1 if grader == "model" else -1
    assert rewards(response) == [sign * value for value in expected]
    assert len(set(expected)) > 2


@pytest.fixture(scope="module")
def classifier(tiny_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A reward model that was never trained."""
    from transformers import AutoModelForSequenceClassification

    folder = shutil.copytree(tiny_model, tmp_path_factory.mktemp("models") / "tiny")
    AutoModelForSequenceClassification.from_pretrained(folder, num_labels=1).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("name", ["rubric", "reward_model"])
def test_an_artifact_and_a_reward_model_give_the_number_of_inspect_score(
    log: EvalLog, name: str, tmp_path: Path, classifier: Path
) -> None:
    judge = ModelSpec(model="reference/judge", model_args={"noise": 0.1})
    rubric = artifact(tmp_path, read_reward("truth_seeking")[0].model_copy(update={"judges": (judge,)}))
    spec = rubric if name == "rubric" else RewardSpec(scorer=name, options={"folder": str(classifier)})
    (response,) = ask(server(spec), ("/batch_score", {"items": items_of(log)}))
    scored = score(log, Source(spec).scorer, action="overwrite", display="log", copy=True)
    values: list[Any] = [next(iter((sample.scores or {}).values())).value for sample in scored.samples or []]
    key = {"rubric": "rubric_score", "reward_model": "reward"}[name]
    assert rewards(response) == pytest.approx([value[key] for value in values])
    assert len({value[key] for value in values}) > 1


def test_an_answer_that_cannot_be_read_has_the_lowest_reward_and_no_score() -> None:
    items = [item("I think so."), item(""), item(r"\finalBeliefProb{0.8}")]
    (response,) = ask(server(), ("/batch_score", {"items": items}))
    unread, empty, read = response.json()["results"]
    assert (unread["score"], unread["reward"], unread["ok"]) == (None, -1, False)
    assert unread["error"]["code"] == empty["error"]["code"] == "unread"
    assert "finalBeliefProb" in unread["error"]["reason"]
    assert read["score"] == pytest.approx(0.04)
    assert read["reward"] == -read["score"]


def test_a_failing_judge_is_no_score() -> None:
    prompts: list[str] = []

    def reply(messages: list[Any]) -> str:
        prompts.append(messages[-1].text)
        if "unreachable" in messages[-1].text:
            raise ConnectionError("no route with sk-secret")
        return "not a form" if "odd" in messages[-1].text else '{"reasons": "so", "grade": 40}'

    served = server(MODEL_GRADER)
    served.source.roles = {"grader": says(reply)}
    items = [item("good"), item("unreachable"), item("odd one")]
    (response,) = ask(served, ("/batch_score", {"items": items}))
    assert response.status_code == 200
    assert rewards(response) == [result["score"] for result in response.json()["results"]] == [0.4, None, None]
    codes = [(result["error"]["code"], result["error"]["retryable"]) for result in response.json()["results"][1:]]
    assert codes == [("judge_failed", True), ("judge_reply", True)]
    assert sum("odd one" in text for text in prompts) == 3, "a cached reply would be read again"
    assert "secret" not in response.text


def refused(_: object) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", "", stop_reason="content_filter")
    output.choices[0].stop_details = StopDetails(explanation="It is about weather.")
    return output


PROMPT_ONLY = {"name": "r", "criteria": [{"id": "a", "text": "Is good."}], "scope": "domain", "applies_to": "physics"}
GLOBAL = PROMPT_ONLY | {"scope": "global", "applies_to": ""}
NO_VALUE = {
    "type": "multi",
    "graders": {"s": {"type": "string_check", "name": "s", "input": "a", "reference": "b", "operation": "eq"}},
    "calculate_output": "1 / s",
}


@pytest.mark.parametrize(
    ("scorer", "options", "code"),
    [
        ("rubric", {"rubric": PROMPT_ONLY}, "unknown_prompt"),
        ("rubric", {"rubric": GLOBAL}, "judge_reply"),
        ("graded", {"grader": "model"}, "judge_reply"),
        ("graded", {"grader": NO_VALUE}, "not_applicable"),
        ("qualitative", {}, "judge_reply"),
    ],
)
def test_no_failure_is_a_reward(scorer: str, options: dict[str, Any], code: str) -> None:
    judge: Any = says(refused)
    served = Server(Source(RewardSpec(scorer=scorer, options=options, roles=dict.fromkeys(JUDGES, "mockllm/model"))))
    served.source.roles = dict.fromkeys(JUDGES, judge)
    native, slime = ask(served, ("/score", item("Perhaps.")), ("/remote_rm", SLIME))
    assert native.json()["error"]["code"] == code
    assert native.json()["reward"] is None
    assert native.status_code == slime.status_code == (422 if code in ("not_applicable", "unknown_prompt") else 503)


def test_a_vote_that_could_not_be_had_fails_the_item() -> None:
    replies = iter(['{"reasons": "So.", "a": 1}', None, "hm"] + ['{"reasons": "So.", "a": 0}'] * 3)

    def reply(_: object) -> str:
        if (text := next(replies)) is None:
            raise ConnectionError("down")
        return text

    options = {"rubric": GLOBAL, "votes": 3, "cache": False}
    served = server(RewardSpec(scorer="rubric", options=options, roles={"judge": "mockllm/model"}))
    served.source.roles = {"judge": says(reply)}
    (response,) = ask(served, ("/score", item("Perhaps.")))
    assert response.json()["score"] == 0, "not the mean of the one vote that was read"


def test_a_truth_may_be_written_otherwise_and_another_is_named() -> None:
    targets = ["yes", "Yes", "1", True, 1, "maybe"]
    asked = [("/score", item(r"\finalBeliefProb{0.8}", target=target)) for target in targets]
    *known, other = ask(server(), *asked)
    assert {response.json()["score"] for response in known} == {known[0].json()["score"]}
    assert "target 'maybe' is neither yes nor no" in other.json()["error"]["reason"]


@pytest.mark.parametrize(
    ("spec", "match"),
    [
        (RewardSpec(scorer="grated"), "known: .*graded"),
        (RewardSpec(scorer="graded", options={"grader": "modle"}), "did you mean 'model'"),
        (RewardSpec(scorer="graded", options={"grader": "model"}), "--model-role grader=MODEL"),
        (RewardSpec(scorer="graded", reward="graded:up"), "use graded:lowest"),
        (RewardSpec(scorer="brier", reward="brier:highest"), "would reward being wrong"),
        (RewardSpec(scorer="graded", options={"grader": "model"}, roles={"grader": 3}), "names no model"),
        (RewardSpec(scorer="martingale"), "martingale .* the evaluated model"),
        (
            RewardSpec(scorer="martingale", options={"elicitor": "judge"}, roles={"judge": "reference/judge"}),
            "the eval",
        ),
        (RewardSpec(scorer="brier", options={"about": "own_answer"}), "brier .* the evaluated model"),
        (RewardSpec(scorer="sycophantic_reasoning", options={"pushback": True}), "the evaluated model"),
    ],
)
def test_a_specification_that_cannot_be_served(spec: RewardSpec, match: str) -> None:
    with pytest.raises(BadInput, match=match):
        Source(spec)


def test_the_digest_is_of_the_code_of_a_users_scorer(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from inspect_ai.scorer import Score, mean, scorer\n\n\n@scorer(metrics=[mean()])\ndef its_length():\n"
        "    async def score(state, target):\n        return Score(value=len(state.output.completion))\n\n"
        "    return score\n"
    )
    loaded = spec_from_file_location("mine", file)
    assert loaded
    assert loaded.loader
    loaded.loader.exec_module(module_from_spec(loaded))
    spec = RewardSpec(scorer="its_length", reward="its_length:highest")
    before, made_of = spec.identity()
    assert list(made_of) == ["served:mine.py"]
    file.write_text(file.read_text().replace("len(", "-len("))
    after, now = spec.identity()
    assert before != after
    assert made_of != now
    assert RewardSpec(scorer="match", reward="match").identity()[1] == {}, "Inspect's are known by its version"


def test_the_digest_is_of_the_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    exported = Artifact.of(Content(reward=read_reward("truth_seeking")[0]))
    for name in ("a.json", "moved.json"):
        Path(name).write_text(json.dumps(exported.model_dump(mode="json")))
    first, moved = (RewardSpec(scorer="rubric", options={"rubric": name}) for name in ("a.json", "moved.json"))
    assert first.digest == moved.digest
    assert first.identity()[1] == {
        f"artifact:{exported.artifact_id}": exported.digest_of_content.removeprefix("sha256:")
    }
    Path("model").write_text("no file of the grader")
    assert RewardSpec(scorer="graded", options={"grader": "model"}, roles=JUDGE).identity()[1] == {}
    long = RewardSpec(scorer="rubric", options={"rubric": json.dumps(GLOBAL | {"name": "n" * 400})}, roles=JUDGE)
    assert len(long.digest) == 64
    with pytest.raises(BadInput, match=r"gone.json does not exist"):
        _ = RewardSpec(scorer="rubric", options={"rubric": "gone.json"}).digest


def test_the_digest_is_of_the_weights_and_of_a_rubrics_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("m-1", "m-2"):
        Path(name).mkdir()
        for file in ("config.json", "model.safetensors"):
            (Path(name) / file).write_text(name)
    Path("rubric.txt").write_text("Be brief.")
    specs = [
        RewardSpec(scorer="graded", options={"grader": "model", "rubric": "rubric.txt"}),
        RewardSpec(scorer="reward_model", options={"folder": "m-*"}),
        RewardSpec(scorer="graded", options={"grader": "model"}, roles={"grader": "hf/m-2"}),
        RewardSpec(scorer="graded", options={"grader": "model"}, roles={"grader": [{"model": "hf/m-2"}, "a/b"]}),
    ]
    before = [spec.digest for spec in specs]
    made_of = [["served:rubric.txt"], ["served:m-1", "served:m-2"], ["served:m-2"], ["served:m-2"]]
    assert [sorted(spec.identity()[1]) for spec in specs] == made_of
    Path("rubric.txt").write_text("Be long.")
    (Path("m-2") / "model.safetensors").write_text("trained again")
    assert all(spec.digest != old for spec, old in zip(specs, before, strict=True))


@pytest.mark.parametrize("scorer", ["match", "inspect_ai/includes", "judge_score"])
def test_without_something_to_score_by_there_is_no_reward(scorer: str) -> None:
    (response,) = ask(
        server(RewardSpec(scorer=scorer)), ("/batch_score", {"items": [item("I do not know.", target="")]})
    )
    (result,) = response.json()["results"]
    assert (result["reward"], result["error"]["code"]) == (None, "not_applicable")


class Grading(Form):
    reasons: str
    grade: int


READERS: list[Callable[[str], object]] = [
    *(read_belief, partial(read_beliefs, number=3), split_thought, answers_in, opens_hollow, opens_with_refusal),
    *(
        partial(material, "text"),
        mask_conclusion,
        partial(parse_form, form=Grading),
        partial(length_of, unit="sentences"),
    ),
    *(partial(extract, how=Extraction(kind="tag", pattern="a")), without_end, conversation, redact),
]
"""What reads a text that a model wrote, which may be as long as a server takes."""
PIECES = [
    "\n", " ", "a", "1", ".", "(", "[", "{", "<", "`", "*", "|", "%", '"', "$", "=", "\u200b", "\r\n", "\n ",
    "```\n", " |", "answer", "answer: ", "answer:\n", "\\finalBeliefProb{", "\\boxed{", "<a>", "<think>",
    "<|im_start|>", "<|user|>a<|end|>", '{"', '{"a":', "[1,", "1. ", "50% or ", "5%\n", "P(yes) = 0.5. ",
    "probability ", "it is ", "1.1", "twenty ", "1 in ", "a-", "://a:", 'a="', "Bearer ", "sk-", "--a ",
    'api_key="', "a:\\", "key_", "<pad>", "<\xad", "< a ", "[A_", '"*',
]  # fmt: skip


@pytest.mark.parametrize("piece", PIECES)
def test_no_text_takes_long_to_read(piece: str) -> None:
    """Nothing that reads a model's text takes more than about twice as long for twice the text."""

    def seconds(read: Callable[[str], object], length: int) -> float:
        took = []
        for start in ("", "x", "answer: "):
            began = process_time()
            read(start + piece * (length // len(piece)) + "x" * bool(start))
            took.append(process_time() - began)
        return max(took)

    # 0.02 s for 10,000 characters are 0.3 s for 40,000 where the time grows as the square
    slow = [read for read in READERS if seconds(read, 10_000) > 0.02]
    least = [[min(seconds(read, length) for _ in range(3)) for length in (10_000, 20_000)] for read in slow]
    assert not [read for read, (short, long) in zip(slow, least, strict=True) if long > 3 * short]
