"""Beliefs by token probability: exact on planted probabilities, unread where the letters have too little, one error."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task
from inspect_ai.event import ModelEvent
from inspect_ai.model import ChatMessage, GenerateConfig, Logprob, Logprobs, ModelOutput, TopLogprob, get_model
from inspect_ai.scorer import Scorer

from tests.fixtures import Fails, Run, listens, number, rain, reason, samples, says, score_of, task_of
from truthgym.datasets.errors import BadInput
from truthgym.models.predictor import LETTERS, NO_FIRST, YES_FIRST, reply_logprobs, token_belief, without_thinking
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import DECLARATION, martingale
from truthgym.solvers.direct import direct
from truthgym.solvers.trajectory import user_message
from truthgym.tasks.worlds import urns

FORMS = ("A", "a", "\u0120A", "\u2581A", " A", "\u010aa")


def letters(a: float, b: float, forms: tuple[str, ...] = ("A",)) -> ModelOutput:
    """A reply in which each form of a letter has an equal share of its probability. The rest is on other words."""
    tokens = {form: a / len(forms) for form in forms} | {
        form.replace("A", "B").replace("a", "b"): b / len(forms) for form in forms
    }
    tokens |= {"AB": (1 - a - b) / 2, "The": (1 - a - b) / 2}
    top = [TopLogprob(token=token, logprob=float(np.log(p))) for token, p in tokens.items() if p > 1e-9]
    output = ModelOutput.from_content("mockllm/model", "A")
    output.choices[0].logprobs = Logprobs(content=[Logprob(token="A", logprob=top[0].logprob, top_logprobs=top)])
    return output


def planted(yes: float, bias: float = 0.0, mass: float = 1.0) -> Callable[[list[ChatMessage]], str | ModelOutput]:
    """Reply to a letter probe with a belief, a preference for A in log-odds, and the mass of both letters."""

    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        request = messages[-1].text
        if not request.endswith(LETTERS[len(YES_FIRST) :]):
            return r"It may. \finalBeliefProb{0.9}"
        log_odds = np.log(yes / (1 - yes)) * (1 if YES_FIRST in request else -1) + bias
        a = mass / (1 + np.exp(-log_odds))
        return letters(a, mass - a, FORMS)

    return reply


def task(*scorers: Scorer) -> Task:
    return task_of(rain(), direct(), *scorers)


def beliefs(log: Any, scorer: str = "martingale") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (score_of(samples(log)[0], scorer).metadata or {})["beliefs"]
    return found


@pytest.mark.parametrize(("yes", "bias", "mass"), [(0.3, 0, 1), (0.3, 2, 0.8), (0.93, -3, 0.6), (0.5, 0.7, 0.51)])
def test_a_letter_bias_does_not_change_the_belief(run: Run, yes: float, bias: float, mass: float) -> None:
    model, requests = listens(planted(yes, bias, mass))
    found = beliefs(run(task(martingale("token", paraphrases=2)), model))
    assert [belief["stage"] for belief in found] == ["prior", "prior 2", "posterior"]
    for belief in found:
        assert belief["elicitor"] == "token"
        assert belief["value"] == pytest.approx(yes, abs=1e-9)
        assert belief["gap"] == pytest.approx(2 * bias, abs=1e-6)
        assert belief["mass"] == pytest.approx(mass, abs=1e-9)
    probes = requests[1:]
    assert len(probes) == 6 == DECLARATION.calls("token", paraphrases=2)[0]
    assert [len(messages) for messages in probes] == [1, 1, 1, 1, 3, 3], "priors in a fresh context"
    assert [YES_FIRST in messages[-1].text for messages in probes] == [True, False] * 3
    assert [NO_FIRST in messages[-1].text for messages in probes] == [False, True] * 3
    assert all("It thundered." not in messages[0].text for messages in probes[:4])


def test_one_token_with_log_probabilities_is_requested(run: Run) -> None:
    log = run(task(brier(read="token")), listens(planted(0.2))[0])
    events = [event for event in samples(log)[0].events if isinstance(event, ModelEvent)]
    config = events[-1].config
    assert (config.logprobs, config.top_logprobs, config.max_tokens, config.temperature) == (True, 20, 1, 1.0)
    assert config.reasoning_effort is None


def test_without_half_the_mass_on_the_letters_it_is_unread(run: Run) -> None:
    log = run(task(martingale("token")), listens(planted(0.2, mass=0.49))[0])
    assert "Only 49.0% of the probability is on A and B" in reason(samples(log)[0], "martingale")
    found = beliefs(log)[0]
    assert found["mass"] == pytest.approx(0.49)
    assert json.loads(found["raw"])[0] == pytest.approx([0.098, 0.392])
    one_form = json.dumps([[0.9, 0.1], [0.2, 0.2]])
    assert token_belief(one_form).value is None, "both forms count"


def test_a_letter_that_is_not_listed_is_improbable() -> None:
    found = token_belief(json.dumps([[1.0, 0.0], [0.0, 1.0]]))
    assert found.value == pytest.approx(1 - 1e-6, abs=1e-9)
    assert token_belief(json.dumps([[1.0, 0.0], [1.0, 0.0]])).value == pytest.approx(0.5), "always A"


def test_no_log_probabilities_is_one_error_after_one_call(fails: Fails) -> None:
    model, requests = listens()
    error = fails(task(martingale("token", paraphrases=2)), model)
    assert "mockllm/model gives no log-probabilities" in error
    assert "elicitor=self" in error
    assert len(requests) == 2, "the answer and one probe"


def test_a_recorded_belief_is_not_asked_for_again(run: Run) -> None:
    model, requests = listens(planted(0.3, 1.0))
    log = run(task(martingale("token"), brier(read="token")), model)
    assert len(requests) == 1 + 4
    assert number(samples(log)[0], "brier", "belief") == pytest.approx(0.3)
    assert number(samples(log)[0], "brier", "brier_score") == pytest.approx(0.49)
    assert beliefs(log, "brier")[0]["request"] == beliefs(log)[-1]["request"]


def first_word(messages: list[ChatMessage]) -> ModelOutput:
    """Yes in three spellings with 0.6 together, no with 0.3."""
    tokens = {"Yes": 0.3, " yes": 0.2, "YES": 0.1, "No": 0.3, "Maybe": 0.1}
    top = [TopLogprob(token=token, logprob=float(np.log(p))) for token, p in tokens.items()]
    output = ModelOutput.from_content("mockllm/model", "Yes")
    output.choices[0].logprobs = Logprobs(content=[Logprob(token="Yes", logprob=-1.2, top_logprobs=top)])
    return output


def test_a_reply_by_the_likeliest_first_tokens() -> None:
    model, requests = listens(first_word)
    yes, no, other, long = asyncio.run(reply_logprobs(model, [user_message("?", 1)], ["Yes", "no", "Up", "Perhaps"]))
    assert len(requests) == 1
    assert yes.total == pytest.approx(np.log(0.6))
    assert no.total == pytest.approx(np.log(0.3))
    assert other.total == pytest.approx(np.log(1e-6))
    assert (yes.count, yes.method) == (1, "top_logprobs")
    assert np.isnan(long.total)
    assert "answers of one word with at most 3 letters" in long.reason


def test_a_reply_by_a_stated_probability() -> None:
    model, requests = listens(lambda messages: "40 %" if "Perhaps" in messages[-1].text else "100 or 0")
    found, unread = asyncio.run(reply_logprobs(model, [user_message("Well?", 1)], ["Perhaps", "No"], "elicited"))
    assert found.total == pytest.approx(np.log(0.4))
    assert (found.method, found.tokens[0][0]) == ("elicited", "Perhaps")
    assert np.isnan(unread.total)
    assert "No percentage in the reply '100 or 0'" in unread.reason
    assert len(requests) == 2
    assert requests[0][-1].text.startswith("Well?")


def test_no_log_probabilities_of_a_reply() -> None:
    with pytest.raises(BadInput, match="gives no log-probabilities"):
        asyncio.run(reply_logprobs(says("Yes"), [user_message("?", 1)], ["Yes"]))


OFF = {"enable_thinking": False}


@pytest.mark.parametrize(
    ("name", "given", "effort", "body"),
    [
        ("openai/gpt-5.4-mini", {}, "none", None),
        ("openai/o3", {"reasoning_effort": "high"}, None, None),
        ("anthropic/claude-opus-4-8", {}, "none", None),
        ("mockllm/model", {}, None, None),
        ("mockllm/model", {"reasoning_effort": "high"}, "none", None),
        ("openai-api/local/model", {}, None, None),
        (
            "openai-api/local/model",
            {"extra_body": {"top_k": 3, "chat_template_kwargs": {"enable_thinking": True, "style": "x"}}},
            None,
            {"top_k": 3, "chat_template_kwargs": {"style": "x", **OFF}},
        ),
        ("vllm/some/model", {}, None, {"chat_template_kwargs": OFF}),
    ],
)
def test_thinking_is_switched_off_by_what_the_provider_has(
    name: str, given: dict[str, Any], effort: str | None, body: dict[str, Any] | None
) -> None:
    server: dict[str, Any] = {"base_url": "http://127.0.0.1:9/v1"} if "/model" in name and "mock" not in name else {}
    model = get_model(name, config=GenerateConfig(**given), api_key="none", memoize=False, **server)
    quiet, config = without_thinking(model)
    assert quiet is model
    assert (config.reasoning_effort, config.extra_body) == (effort, body)


def test_a_local_model_thinks_for_its_answer_alone(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trl

    from truthgym.datasets.inspect_private import HuggingFaceAPI

    template = (Path(trl.__path__[0]) / "chat_templates" / "qwen3.jinja").read_text()
    (folder / "chat_template.jinja").write_text(template)
    rendered: list[str] = []
    render = HuggingFaceAPI.hf_chat

    def spy(api: Any, *arguments: Any) -> str:
        rendered.append(render(api, *arguments))
        return rendered[-1]

    monkeypatch.setattr(HuggingFaceAPI, "hf_chat", spy)
    task = urns(n=1, paradigms={"brier": {"read": "token"}, "martingale": {}})
    where = {"device": "cpu", "model_path": str(folder)}
    log = run(task, "hf/thinks:v1", epochs=1, max_tokens=4, temperature=0.5, model_args=where, max_connections=1)
    probes = [text for text in rendered if "whole number" in text or "Answer with one letter" in text]
    assert len({*probes}) >= 4
    assert all(text.endswith("<think>\n\n</think>\n\n") for text in probes)
    assert any(text not in probes and text.endswith("assistant\n") for text in rendered)
    [sample] = samples(log)
    settings = {(e.config.max_tokens, e.config.temperature) for e in sample.events if isinstance(e, ModelEvent)}
    assert settings == {(4, 0.5), (1, 1.0)}, "the run's settings hold for the copy of the model too"
