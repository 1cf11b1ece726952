"""Limits of a judge's provider: calls and tokens a minute, and what a 429 asks for."""

import asyncio
from typing import Any

import pytest
from inspect_ai.model import ChatMessageUser, Model, ModelOutput, ModelUsage, get_model

from truthgym.serve.service.rates import ATTEMPT, LONGEST_ASKED, Rate, limit
from truthgym.serve.service.scoring import Source
from truthgym.serve.spec import RewardSpec


def test_calls_are_spread_evenly() -> None:
    rate = Rate(requests=30)
    assert [rate.claim(100.0)[0] for _ in range(3)] == [100, 102, 104]
    assert rate.claim(200.0)[0] == 200, "unused time is not saved up"
    assert [Rate().claim(5.0)[0] for _ in range(3)] == [5, 5, 5]


def test_tokens_count_when_they_are_known() -> None:
    rate = Rate(tokens=600)  # ten a second
    start, claimed = rate.claim(0.0)
    assert (start, claimed) == (0, 0)
    rate.settle(claimed, 50)
    assert rate.claim(0.0) == (5, 50), "after the first call's fifty tokens, and expected to use as many"
    rate.settle(50, 80)
    assert rate.claim(0.0)[0] == pytest.approx(13)
    before = Rate(tokens=600)
    before.settle(*before.claim(0.0)[1:], None)
    assert before.claim(0.0)[0] == 0, "one that failed used none"


def test_a_refusal_holds_every_call() -> None:
    rate = Rate()
    rate.refuse(10.0, 7.0)
    assert rate.claim(11.0)[0] == 17
    rate.refuse(17.0, None)
    rate.refuse(17.0, None)
    assert rate.paused_until == 17 + 8, "without a time, twice as long for each in a row"
    rate.settle(0.0, 10)
    rate.refuse(30.0, None)
    assert rate.paused_until == 32
    rate.refuse(100.0, 100_000_000.0)
    assert rate.paused_until == 100 + LONGEST_ASKED


class TooMany(Exception):
    pass


def judge(outcomes: list[ModelOutput | Exception]) -> Model:
    model = get_model("mockllm/model", custom_outputs=[], memoize=False)

    async def generate(*_: Any, **__: Any) -> Any:
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome, None

    def should_retry(error: BaseException) -> Any:
        from inspect_ai.model._model import RetryDecision

        return RetryDecision.rate_limit(retry_after=40.0) if isinstance(error, TooMany) else RetryDecision.no()

    model.api.generate = generate  # type: ignore[method-assign]
    model.api.should_retry = should_retry  # type: ignore[method-assign, assignment]
    return model


async def generate(model: Model) -> None:
    await model.api.generate([ChatMessageUser(content="?")], [], "none", model.config)


def said(tokens: int) -> ModelOutput:
    output = ModelOutput.from_content("mockllm/model", "Yes.")
    output.usage = ModelUsage(input_tokens=tokens, output_tokens=0, total_tokens=tokens)
    return output


def test_a_429_of_the_provider_holds_the_next_calls() -> None:
    rate = Rate(tokens=600)
    model = limit(judge([said(30), TooMany(), ValueError("other")]), rate)

    async def call() -> float:
        before = asyncio.get_running_loop().time()
        await generate(model)
        rate._next_token = 0.0
        with pytest.raises(TooMany):
            await generate(model)
        assert rate.paused_until >= before + 40
        rate.paused_until = rate._next_token = 0.0
        with pytest.raises(ValueError, match="other"):
            await generate(model)
        return rate.paused_until

    assert asyncio.run(call()) == 0.0, "another error asks for no pause"
    assert rate._mean == 30


def test_the_time_of_an_attempt_begins_when_its_call_may_be_made() -> None:
    async def attempt(longest: float) -> float:
        rate = Rate(requests=6)
        rate.claim(asyncio.get_running_loop().time())
        end = asyncio.get_running_loop().time() + longest
        async with asyncio.timeout(60) as timeout:
            ATTEMPT.set((timeout, 60.0, end))
            begun = timeout.when() or 0.0
            waiting = asyncio.ensure_future(rate.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            return (timeout.when() or 0.0) - begun

    assert asyncio.run(attempt(150)) == pytest.approx(10, abs=1)
    assert asyncio.run(attempt(65)) == pytest.approx(5, abs=1), "its place is free at the deadline"


def test_a_swap_keeps_the_rate_of_a_model() -> None:
    spec = RewardSpec(scorer="graded", options={"grader": "model"}, roles={"grader": "mockllm/model"})
    first = Source(spec)
    assert Source(spec, 100, first.rates).rates.rate_of("mockllm/model") is first.rates.rate_of("mockllm/model")


def test_the_client_of_a_provider_repeats_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "x")
    monkeypatch.setenv("SOME_BASE_URL", "http://127.0.0.1:9")
    model = get_model("openai-api/some/model", memoize=False)
    with pytest.raises(Exception, match="[Cc]onnection"):
        asyncio.run(generate(limit(model, Rate())))
    assert model.api.client.max_retries == 0  # type: ignore[attr-defined]
