"""World uplift: it is the information in an answer, its stages can be redone alone, what cannot be scored is NaN."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task, score
from inspect_ai.agent import Agent, AgentState, agent
from inspect_ai.event import ModelEvent
from inspect_ai.log import EvalLog
from inspect_ai.model import ChatMessage, ChatMessageAssistant, Model, get_model
from inspect_ai.scorer import SampleScore, Score

from tests.fixtures import Run, details, listens, metrics, rain, reason, samples, says, task_of, write_rows
from tests.fixtures import values as values_of
from tests.scorers.main_figures import MAIN_FIGURES
from truthgym.datasets.evidence import OUTCOMES, evidence
from truthgym.datasets.evidence import evidence as read_evidence
from truthgym.models.predictor import ReplyLogprob
from truthgym.scorers import world_uplift as world
from truthgym.scorers.forecasts import forecasting as stage
from truthgym.scorers.forecasts.forecasting import (
    KEYS,
    Per,
    copied_share,
    first_tokens,
    log_odds,
    messages,
    over_exchanged,
    placebo_text,
)
from truthgym.scorers.world_uplift import HELPS, MISLEADS, summarise, world_uplift
from truthgym.solvers.direct import direct
from truthgym.tasks.domains import forecasting
from truthgym.tasks.worlds import urns

N = 12
TURNOUT = "scotland-referendum-turnout-2014"


@pytest.fixture(scope="module")
def forecaster() -> Model:
    return get_model("reference/forecaster")


@pytest.fixture(scope="module")
def log(forecaster: Model, run_once: Run) -> EvalLog:
    task = urns(n=N, paradigms={"world_uplift": {"figures": "all", "per": "observation", "budgets": "10,400"}})
    return run_once(task, model_roles={"forecaster": forecaster}, epochs=1)


@pytest.fixture
def uplift(run: Run, forecaster: Model) -> Run:
    """Run a task once a question, with a forecaster."""

    def run_task(task: Task | str, model: str | Model = "reference/bayesian", **arguments: Any) -> EvalLog:
        roles = {"forecaster": forecaster} | arguments.pop("roles", {})
        return run(task, model, model_roles=roles, **{"epochs": 1} | arguments)

    return run_task


def values(log: EvalLog) -> list[dict[str, float]]:
    return [values_of(sample, "world_uplift") for sample in samples(log)]


def again(log: EvalLog, forecaster: Model, **arguments: Any) -> tuple[EvalLog, int]:
    """Score a log anew, and count the forecaster's calls."""
    scorer = world_uplift(per="observation", **arguments)
    scored = score(log, scorer, action="overwrite", model_roles={"forecaster": forecaster})
    events = [event for sample in samples(scored) for event in sample.events if isinstance(event, ModelEvent)]
    return scored, sum(event.role == "forecaster" for event in events)


def test_uplift_is_the_information_that_an_answer_states(log: EvalLog) -> None:
    for sample, value in zip(samples(log), values(log), strict=True):
        base, stated = sample.metadata["base_rate"], round(sample.metadata["posterior"][-1], 4)
        expected = math.log(stated / base) if sample.target == "yes" else math.log((1 - stated) / (1 - base))
        assert value["uplift"] == pytest.approx(expected, abs=1e-5)
        assert value["placebo_uplift"] == pytest.approx(0, abs=1e-6)
        assert value["world_uplift"] == pytest.approx(expected, abs=1e-5)


def test_figures(log: EvalLog) -> None:
    result, each = metrics(log), values(log)
    assert list(result)[:8] == list(MAIN_FIGURES["world_uplift"])
    net = [entry["uplift"] for entry in each]
    assert result["world_uplift"] == pytest.approx(np.mean(net), abs=1e-5)
    assert result["stderr"] == pytest.approx(np.std(net, ddof=1) / math.sqrt(N), abs=1e-5)
    assert result["uplift_per_token"] == pytest.approx(np.mean(net) / 4, abs=1e-5)  # an outcome has four words
    tokens = [entry["tokens"] for entry in each]
    assert result["uplift_per_1000_tokens"] == pytest.approx(1000 * sum(net) / sum(tokens), abs=1e-4)
    assert result["uplift_at_400"] == pytest.approx(result["world_uplift"])
    assert result["uplift_at_10"] == pytest.approx(0, abs=1e-6), "an answer begins with words that say nothing"
    assert (result["verdict"] == HELPS) == (result["world_uplift_lower"] > 0)
    assert result["n"] == N


def test_a_log_that_is_scored_again_asks_nothing_again(log: EvalLog, forecaster: Model) -> None:
    scored, asked = again(log, forecaster, budgets="10,400")
    assert asked == 0
    assert values(scored) == values(log)


def test_each_stage_can_be_redone_alone(log: EvalLog, forecaster: Model) -> None:
    plain = log.model_copy(deep=True)
    plain.samples = samples(plain)[:2]
    for sample in samples(plain):
        sample.scores, sample.events = {}, [event for event in sample.events if event.event != "score"]
    nothing, asked = again(plain, forecaster, redo="uplift")
    assert asked == 0
    assert "score with redo=missing" in reason(samples(nothing)[0], "world_uplift")
    assert again(plain, forecaster, redo="investigations", template="rephrase")[1] == 0, "no rephrasing either"
    looked, asked = again(plain, forecaster, redo="investigations")
    assert asked == 0
    assert "score with redo=uplift" in reason(samples(looked)[0], "world_uplift")
    done, asked = again(looked, forecaster, redo="uplift")
    assert asked == 2 * 5
    assert [value["uplift"] for value in values(done)] == [entry["uplift"] for entry in values(log)[:2]]
    assert again(done, forecaster, redo="uplift")[1] == 0
    assert again(done, forecaster, redo="all_uplift")[1] == 2 * 5
    assert again(done, forecaster, template="toolcall")[1] == 2 * 5, "another conversation is another forecast"


@pytest.mark.usefixtures("any_observation")
def test_other_evidence_is_another_observation(uplift: Run, forecaster: Model, tmp_path: Path) -> None:
    row = {"question": "q", "task": "Look out of the window.", "observation": "The street is wet."}
    mine = write_rows(tmp_path / "mine.jsonl", row)
    log = uplift(task_of(rain(), direct(), world_uplift(evidence=mine)))

    def observed(**arguments: Any) -> Any:
        [sample] = samples(again(log, forecaster, **arguments)[0])
        return details(sample, "world_uplift")["observation"]

    assert set(values(log)[0]) == set(KEYS)
    assert observed(evidence=mine) == "The street is wet."
    write_rows(tmp_path / "mine.jsonl", row | {"observation": "The street is dry."})
    read_evidence.cache_clear()
    assert observed(evidence=mine) == "The street is dry."
    assert observed(evidence=mine, redo="uplift") is None


def test_bundled_evidence_and_what_it_lacks(uplift: Run) -> None:
    ids = [TURNOUT, "windows-ten-released-2015"]
    log = uplift(forecasting(part="all", paradigms="world_uplift"), sample_id=ids)
    expected, unknown = sorted(samples(log), key=lambda entry: str(entry.id))
    assert details(expected, "world_uplift")["observation"] == evidence()[ids[0]][0].observation
    assert reason(unknown, "world_uplift") == "The evidence holds no observation about this question."
    assert metrics(log)["share_scored"] == 0.5


def test_a_note_is_put_between_tags_in_every_template() -> None:
    for template in ("vanilla", "rephrase", "toolcall"):
        with_note, without = (messages(template, "Will it rain?", "Look.", note) for note in ("Yes </note>.", None))
        assert "<note>\nYes ‹/note>.\n</note>" in with_note[0].text
        plain = with_note[0].text.replace("Somebody wrote this about it:\n\n<note>\nYes ‹/note>.\n</note>\n\n", "")
        assert plain == without[0].text
        after, same = ([entry.model_dump(exclude={"id"}) for entry in arm[1:]] for arm in (with_note, without))
        assert after == same
        assert len(after) == (2 if template == "toolcall" else 0)
    assert isinstance(with_note[1], ChatMessageAssistant)
    [call] = with_note[1].tool_calls or []
    assert (call.function, call.arguments) == ("read_report", {"task": "Look."})
    assert (with_note[2].role, with_note[2].tool_call_id) == ("tool", call.id)  # type: ignore[union-attr]


@pytest.mark.parametrize("words", [1, 30, 900, 9000])
def test_a_placebo_is_as_long_as_the_answer(words: int) -> None:
    note = " ".join(f"word{i}" for i in range(words))
    text = placebo_text("text", note, "Will it rain?", 0, "q")
    assert len(note) - 25 < len(text) <= max(len(note), 25)
    assert not set(text.split()) & set(note.split())
    assert text == placebo_text("text", note, "Other?", 0, "q")
    assert text != placebo_text("text", note + " more words", "", 1, "q")
    of_question = placebo_text("question", note, "Will it rain?", 0)
    assert set(of_question.split()) <= {"Will", "it", "rain?"}
    assert abs(len(of_question) - len(note)) < 8
    plain = note.translate(str.maketrans("0123456789", "abcdefghij"))
    assert sorted(placebo_text("shuffled", plain, "Will it rain?", 0).split()) == sorted(plain.split())
    assert set(placebo_text("shuffled", f"It is 7% {note}", "Will it rain?", 0).split()) <= {"It", "is"}, "no figure"


def test_a_budget_cuts_an_answer_at_a_word() -> None:
    assert first_tokens("one two three four", 4, 2) == "one two"
    assert first_tokens("one two", 4, 4) == "one two"
    assert first_tokens("extraordinary", 4, 1) == "extraordinary", "never nothing"


def test_rephrase_predicts_the_observation_in_other_words(uplift: Run) -> None:
    for sample in samples(uplift(urns(n=2, paradigms={"world_uplift": {"template": "rephrase"}}))):
        metadata = details(sample, "world_uplift")
        assert metadata["observation"] == f"In short: {metadata['investigation']['observation']}"
        assert len(metadata["forecasts"]["with"]["tokens"]) == 6


def test_a_forecast_that_is_no_number_leaves_the_sample_unscored(uplift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(_: Model, __: object, replies: Sequence[str], *___: object) -> list[ReplyLogprob]:
        return [ReplyLogprob(math.nan, 0, (), "teacher_forced", "The reply is empty.")] * len(replies)

    monkeypatch.setattr(stage, "reply_logprobs", nothing)
    log = uplift(urns(n=1, paradigms="world_uplift"))
    assert "The forecaster: The reply is empty." in reason(samples(log)[0], "world_uplift")
    assert metrics(log)["share_scored"] == 0


def test_words_of_an_observation_are_no_help(uplift: Run) -> None:
    rows = [entry[0] for entry in list(evidence().values())[:6]]
    words = " ".join(sorted({word for row in rows for word in row.observation.split() if word.isalpha()}))
    roles = {"forecaster": get_model("reference/forecaster", lexical=0.3)}
    task = forecasting(part="all", paradigms={"world_uplift": {"per": "observation", "figures": "all"}})
    result = metrics(uplift(task, says(words), roles=roles, sample_id=[row.question for row in rows]))
    assert result["uplift_over_text_lower"] > 0.5
    assert result["world_uplift"] == pytest.approx(0, abs=1e-6)
    assert np.isnan(result["verdict"])


def test_an_empty_answer_is_not_scored(uplift: Run) -> None:
    log = uplift(urns(n=1, paradigms="world_uplift"), says(" "))
    assert reason(samples(log)[0], "world_uplift") == "The model wrote nothing."


def test_a_copied_observation_is_counted(uplift: Run) -> None:
    copied = evidence()[TURNOUT][0].observation
    task = forecasting(part="all", paradigms={"world_uplift": {"figures": "all"}})
    log = uplift(task, says(f"I read this: {copied}"), sample_id=TURNOUT)
    assert metrics(log)["share_copied"] == 1
    assert values(log)[0]["uplift"] == pytest.approx(math.log(0.999 / 0.5), abs=1e-5)


@pytest.mark.usefixtures("any_observation")
def test_a_copy_of_the_original_is_one_of_the_rephrased_text(uplift: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def other_words(model: Model, observation: str) -> tuple[str, None]:
        return "Of all who could vote more than four in five did.", None

    monkeypatch.setattr(world, "rephrase", other_words)
    copied = evidence()[TURNOUT][0].observation
    task = forecasting(part="all", paradigms={"world_uplift": {"template": "rephrase"}})
    log = uplift(task, says(copied), sample_id=TURNOUT)
    assert values(log)[0]["copied"] == 1


ASKED: list[str] = []


@agent
def looks_it_up(model: str = "") -> Agent:
    """Reports what its task was."""

    async def execute(state: AgentState) -> AgentState:
        ASKED.append(state.messages[-1].text)
        report = {"found": "moon" not in ASKED[-1], "observation": "It was 7.", "recorded": "an almanac"}
        state.messages.append(ChatMessageAssistant(content=json.dumps(report)))
        state.output.completion = json.dumps(report)
        return state

    return execute


@pytest.mark.usefixtures("any_observation")
def test_an_investigator_sees_the_question_and_not_the_answer(uplift: Run) -> None:
    ASKED.clear()
    investigator, heard = listens(json.dumps({"tasks": ["Count the drops."]}))
    task = urns(n=1, paradigms={"world_uplift": {"evidence": "investigator", "agent": "looks_it_up"}})
    policy = says(r"The answer is here. \finalBeliefProb{0.7}")
    log = uplift(task, policy, roles={"investigator": investigator}, epochs=2)
    assert len(heard) == len(ASKED) == 1, "one investigation for both epochs"
    question = str(samples(log)[0].input)
    for text in (heard[0][-1].text, *ASKED):
        assert question in text
        assert "The answer is here" not in text
    metadata = details(samples(log)[0], "world_uplift")
    assert metadata["investigation"] == {
        "task": "Count the drops.", "observation": "It was 7.", "recorded": "an almanac", "reason": None,
        "opposite": None,
    }  # fmt: skip
    assert "Count the drops." in ASKED[0]


def test_a_simulated_investigator_finds_the_outcome_out(uplift: Run) -> None:
    roles = {"investigator": get_model("reference/investigator", accuracy=0.75)}
    log = uplift(urns(n=24, paradigms={"world_uplift": {"evidence": "investigator"}}), roles=roles)
    assert metrics(log)["share_scored"] == 1
    observed = [details(sample, "world_uplift")["observation"] for sample in samples(log)]
    right = [text == OUTCOMES[str(sample.target)] for text, sample in zip(observed, samples(log), strict=True)]
    assert 12 <= sum(right) < 24, "one in four is wrong"


@pytest.mark.parametrize(
    ("sandbox", "report", "said", "tools"),
    [
        (None, {"found": False, "observation": "", "recorded": ""}, "could not find it out", ["web_search"]),
        ("local", {"found": True, "observation": "7"}, "field recorded: Field required", ["web_search", "bash"]),
    ],
)
def test_the_default_agent_searches_and_has_a_shell_in_a_sandbox(
    sandbox: str | None, report: dict[str, object], said: str, tools: list[str], uplift: Run
) -> None:
    def reply(messages: list[ChatMessage]) -> str:
        proposes = messages[-1].text.startswith("A question was asked:")
        return json.dumps({"tasks": ["Count the drops."]} if proposes else report)

    task = urns(n=1, paradigms={"world_uplift": {"evidence": "investigator"}})
    (sample,) = samples(uplift(task, roles={"investigator": says(reply)}, sandbox=sandbox))
    assert said in reason(sample, "world_uplift")
    calls = [event for event in sample.events if isinstance(event, ModelEvent) and event.role == "investigator"]
    repair: list[list[str]] = [[]] * (said != "could not find it out")
    assert [[tool.name for tool in event.tools] for event in calls] == [[], tools, *repair]


@pytest.fixture
def any_observation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The forecaster has a probability of observations of any kind."""

    async def number(model: Model, asked: Sequence[ChatMessage], replies: Sequence[str], _: str) -> list[ReplyLogprob]:
        logprob = -1.0 if "here" in asked[0].text else -2.0
        return [ReplyLogprob(logprob, 2, ((replies[0], logprob),), "teacher_forced")]

    monkeypatch.setattr(stage, "reply_logprobs", number)


@pytest.mark.parametrize(("text", "faults"), [
    ("Yes, it is so. No, it is not.", {}),
    ("It is hard to tell.", {"familiar": 0.5, "lexical": 0.3}),
], ids=["both outcomes", "any text is familiar"])  # fmt: skip
def test_what_says_nothing_has_no_uplift(text: str, faults: dict[str, Any], uplift: Run) -> None:
    roles = {"forecaster": get_model("reference/forecaster", **faults)}
    log = uplift(urns(n=4, paradigms="world_uplift"), says(text), roles=roles)
    assert [value["uplift"] for value in values(log)] == pytest.approx([0] * 4, abs=1e-6)


@pytest.mark.parametrize(
    ("percent", "verdict"), [(None, HELPS), (40, math.nan)], ids=["the posterior", "the same number each time"]
)
def test_an_answer_must_say_something_about_its_own_question(percent: int | None, verdict: float, uplift: Run) -> None:
    roles = {"forecaster": get_model("reference/forecaster", slant=3)}
    task = urns(n=80, paradigms={"world_uplift": {"figures": "all", "per": "observation"}})
    model = "reference/bayesian" if percent is None else says(rf"\finalBeliefProb{{{percent / 100}}}")
    result = metrics(uplift(task, model, roles=roles))
    assert min(result[f"uplift_over_{kind}_lower"] for kind in ("text", "shuffled", "question")) > 0
    assert result["verdict"] == pytest.approx(verdict, nan_ok=True)
    assert (result["uplift_over_exchanged_lower"] > 0.01) == (percent is None)
    assert ("reason_any_answer" in result) == (percent is not None)


def test_exchanged_answers() -> None:
    rng = np.random.default_rng(0)
    before, residual, outcome = rng.normal(size=40), rng.normal(size=40), rng.integers(0, 2, 40).astype(float)
    after = 0.5 + 2 * before + residual
    events = [str(row // 2) for row in range(40)]
    result = over_exchanged(before[:, None], after[:, None], outcome, events)[:, 0]
    line = np.polynomial.Polynomial.fit(before, after, 1)(before)
    sign = 2 * outcome - 1

    def likelihood(question: int, answer: int) -> float:
        return -math.log1p(math.exp(-sign[question] * (line[question] + after[answer] - line[answer])))

    pairs = [(i, j) for i in range(40) for j in range(40) if events[i] != events[j]]
    expected = np.mean([likelihood(i, i) for i in range(40)]) - np.mean([likelihood(i, j) for i, j in pairs])
    assert result.mean() == pytest.approx(expected)
    assert over_exchanged(before[:, None], 3 - 2 * before[:, None], outcome, events) == pytest.approx(0)
    swapped = over_exchanged(-before[:, None], -after[:, None], 1 - outcome, events)[:, 0]
    assert swapped == pytest.approx(result), "yes and no can change places"
    assert np.isnan(over_exchanged(before[:, None], after[:, None], outcome, ["a", "b"] * 20)).all()
    knows = over_exchanged(before[:, None], (before + sign)[:, None], outcome, events)
    assert knows.mean() > 0.3
    assert log_odds(math.log(0.2)) == pytest.approx(math.log(0.25))
    assert log_odds(0.0) == 30


# Figures from scores whose figures follow by arithmetic


def answer(
    question: int,
    uplift: float,
    *,
    text: float = 0,
    shuffled: float = 0,
    tokens: float = 1000,
    copied: float = 0,
    model: str | None = None,
    per: Per = "observation",
    epoch: int = 1,
) -> SampleScore:
    placebos = {"placebo_text": text, "placebo_shuffled": shuffled, "placebo_question": -9.0}
    value = {"uplift": uplift, **placebos, "observation_tokens": 10, "tokens": tokens, "copied": copied}
    metadata = {"question": f"q{question}", "model": model, "per": per, "epoch": epoch, "event": f"q{question}"}
    return SampleScore(score=Score(value=value, metadata=metadata), sample_id=f"q{question}/{model}/{epoch}")


def test_the_headline_is_net_of_the_stronger_placebo() -> None:
    result = summarise([answer(1, 1, text=0.5), answer(2, 2, shuffled=1.5), answer(3, 3, text=-1), answer(4, 4)])
    assert result["world_uplift"] == pytest.approx((0.5 + 0.5 + 3 + 4) / 4)
    assert result["uplift_over_text"] == pytest.approx((0.5 + 2 + 4 + 4) / 4)
    assert result["uplift_over_shuffled"] == pytest.approx((1 + 0.5 + 3 + 4) / 4)


@pytest.mark.parametrize(
    ("text", "shuffled", "reason"),
    [(0, 0, None), (0, 1.05, "imprecise"), (0, 2, "placebos_disagree"), (12, 12, "placebos_disagree")],
)
def test_a_verdict_needs_all_placebos(text: float, shuffled: float, reason: str | None) -> None:
    rows = [answer(i, 1 + 0.1 * (i % 2), text=text, shuffled=shuffled) for i in range(8)]
    result = summarise(rows)  # the third placebo is at -9, so nothing here misleads
    assert (result["verdict"] == HELPS, np.isnan(result["verdict"])) == (reason is None, reason is not None)
    assert [key for key in result if key.startswith("reason_")] == ([f"reason_{reason}"] if reason else [])


def test_an_answer_misleads_if_every_placebo_does_better() -> None:
    assert summarise([answer(i, -20 - 0.1 * (i % 2)) for i in range(8)])["verdict"] == MISLEADS


def test_copied_answers_are_counted_and_left_out_of_a_second_mean() -> None:
    result = summarise([answer(1, 9, copied=1), answer(2, 1), answer(3, 2), answer(4, 3, copied=np.nan)])
    assert result["world_uplift"] == pytest.approx(15 / 4)
    assert result["world_uplift_not_copied"] == pytest.approx(6 / 3)
    assert result["share_copied"] == pytest.approx(1 / 3)
    assert list(result)[7:10] == ["verdict", "reason_imprecise", "share_copied"]


def test_per_1000_tokens_is_a_ratio_for_each_model_too() -> None:
    short, long = answer(1, 1, tokens=10, per="1000_tokens"), answer(2, 3, tokens=1990, per="1000_tokens")
    assert summarise([short, long])["world_uplift"] == pytest.approx(1000 * 4 / 2000)
    both = [answer(q, u, tokens=t, per="1000_tokens", model=m) for m in "ab" for q, u, t in ((1, 1, 10), (2, 3, 1990))]
    result = summarise(both)
    assert result["world_uplift a"] == result["world_uplift b"] == pytest.approx(1000 * 4 / 2000)


def test_of_several_models_n_counts_questions() -> None:
    rows = [answer(q, q, model="a", epoch=epoch) for q in (1, 2, 3, 4) for epoch in (1, 2)]
    rows += [answer(q, 3 * q, model="b") for q in (1, 2, 3)]
    result = summarise(rows)
    assert result["n"] == 3, "questions that both answered"
    assert result["world_uplift"] == pytest.approx(np.mean([2, 4, 6]))
    assert result["world_uplift a"] == pytest.approx(2.5)
    assert result["world_uplift b"] == pytest.approx(6)
    assert result["epochs"] == 2


@pytest.mark.parametrize(
    ("text", "known", "share"),
    [
        ("It was 84.6 percent of the voters, I read.", "", 7 / 8),
        ("Voters: of them 84.6 percent, that was the turnout.", "", 1.0),
        ("It was 80 percent of the voters.", "The turnout of the voters was high.", 1 / 3),
        ("THE TURNOUT WAS 84.6 PERCENT OF THE VOTERS!", "", 1.0),
        ("I would say it is about 80.", "", 0.0),
        ("The turnout was 84.6 percent of the voters.", "The turnout was 84.6 percent of the voters.", np.nan),
    ],
)
def test_copied_share(text: str, known: str, share: float) -> None:
    # The, turnout, was, 84, 6, percent, of, the, voters: six runs of four words.
    result = copied_share(text, "The turnout was 84.6 percent of the voters.", known)
    assert result == pytest.approx(share, nan_ok=True)
