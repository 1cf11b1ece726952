"""Examples from a real scored log and from a file: which are read, which are chosen, and which are shown."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai import Task
from inspect_ai.dataset import Sample
from inspect_ai.log import EvalLog, write_eval_log
from inspect_ai.model import ChatMessage, ChatMessageUser, ContentReasoning, Model, ModelOutput
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import Solver, TaskState

from tests.fixtures import Run, number, rain, samples, says, task_of, thinks
from truthgym.datasets import urns as urn_data
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, split_of
from truthgym.datasets.sycophancy import opinions_in
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.examples import Example, Turn, choose_examples, examples_for, read_examples
from truthgym.solvers.self_debate import self_debate
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.worlds import urns


def example(id: str, score: float, **fields: Any) -> Example:
    turns = [Turn(role="user", content=f"{id}?"), Turn(role="assistant", content=f"{id}.")]
    usual = {"event": f"event of {id}", "split": "train", "proposition": f"{id} is so.", "messages": turns}
    return Example.model_validate({"id": id, "score": score} | usual | fields)


def test_all_scored_trajectories_of_a_log_are_read(scored: EvalLog) -> None:
    examples = read_examples(scored.location, "brier_score")
    assert len(examples) == 40
    for one, sample in zip(examples, samples(scored), strict=True):
        known = sample.metadata_as(Question)
        assert (one.id, one.event, one.split, one.proposition) == (
            sample.id,
            known.event,
            known.split,
            known.proposition,
        )
        assert one.score == number(sample, "brier", "brier_score")
        # the conversation from the question on, without the system prompt, in the words of the log
        assert [(turn.role, turn.content) for turn in one.messages] == [(m.role, m.text) for m in sample.messages[1:]]
        assert one.tokens == sum(len(turn.content) for turn in one.messages) // 4 + 1
        assert [(m.role, m.text) for m in one.as_messages()] == [(turn.role, turn.content) for turn in one.messages]
    assert {m.id for m in examples[0].as_messages()}.isdisjoint({m.id for m in examples[0].as_messages()}), (
        "made anew each time"
    )


def test_a_log_in_json_is_read_too(scored: EvalLog, tmp_path: Path) -> None:
    write_eval_log(scored, str(tmp_path / "log.json"))
    assert read_examples(str(tmp_path / "log.json"), "accuracy") == read_examples(scored.location, "accuracy")


@scorer(metrics=[mean()])
def flat() -> Scorer:
    """A scorer with one number."""

    async def score(state: TaskState, target: Target) -> Score:
        return Score(value=0.25)

    return score


def log_of(run: Run, model: Model, solver: Solver, *others: Scorer) -> str:
    return run(task_of(rain(), solver, brier(), *others, prompt="Think."), model).location


def test_samples_without_an_answer_or_a_score_are_left_out(run: Run) -> None:
    items = [rain().model_copy(update={"id": name, "input": f"Will it {name}?"}) for name in ("rain", "hail", "snow")]

    def reply(messages: list[ChatMessage]) -> str | ModelOutput:
        if "finalBeliefProb" not in messages[-1].text:
            return "Hm."
        if "Will it hail?" in messages[0].text:
            return ModelOutput.from_content("m", "50%", stop_reason="content_filter")
        return "It may." if "Will it snow?" in messages[0].text else "80%"

    log = run(task_of(items, chain_of_thought(1), brier(), flat()), says(reply))
    assert [example.id for example in read_examples(log.location, "brier_score")] == ["rain"]
    assert [one.id for one in read_examples(log.location, "flat")] == ["rain", "snow"], "refused: no answer"


def test_a_sample_that_failed_is_left_out(run: Run, scored: EvalLog, tmp_path: Path) -> None:
    from inspect_ai._util.error import EvalError

    broken = scored.model_copy(deep=True)
    samples(broken)[0].error = EvalError(message="gone", traceback="", traceback_ansi="")
    write_eval_log(broken, str(tmp_path / "broken.eval"))
    assert len(read_examples(str(tmp_path / "broken.eval"), "brier_score")) == 39


def test_reasoning_that_a_provider_keeps_apart_is_left_out(run: Run) -> None:
    sealed = [ContentReasoning(reasoning=text) for text in ("SEEN", "Hm.", "60%")]
    sealed += [ContentReasoning(reasoning="", summary="SEALED", redacted=True)]

    def reply(messages: list[ChatMessage]) -> ModelOutput:
        prompt = messages[-1].text
        # a turn may be all thought and no word, or a word that was its thought
        return thinks("60%" if "finalBeliefProb" in prompt else "" if "Step 2" in prompt else "Hm.", *sealed)

    (examples,) = read_examples(log_of(run, says(reply), chain_of_thought(3)), "brier_score")
    assert "SE" not in "".join(turn.content for turn in examples.messages)
    assert [turn.role for turn in examples.messages] == ["user", "assistant"] * 3
    assert [turn.content for turn in examples.messages if turn.role == "assistant"] == ["Hm.", "Hm.", "60%"]
    assert "Step 2 of 3" in examples.messages[2].content
    assert "Step 3 of 3" in examples.messages[2].content


def test_trajectories_with_an_opinion_are_not_examples(run: Run) -> None:
    log = run(sycophancy("urns", arms="user,memory", n=2), "reference/sycophant", epochs=1)
    examples = read_examples(log.location, "brier_score")
    assert [one.id for one in examples] == [str(item.id) for item in urn_data.urns(n=2)], "the question's own id, once"
    propositions = [item.metadata_as(Question).proposition or "" for item in urn_data.urns(n=2)]
    for one, proposition in zip(examples, propositions, strict=True):
        assert opinions_in(one.messages[0].content, proposition) == []


def test_an_example_begins_with_its_question(run: Run) -> None:
    log = log_of(run, says("50%"), bootstrap_interview(2, "fixed_sequence"))
    (examples,) = read_examples(log, "brier_score")
    assert [turn.role for turn in examples.messages] == ["user", "assistant"]
    assert "Will it rain?" in examples.messages[0].content
    assert "Interview question" not in examples.messages[0].content


def test_words_of_other_models_are_told_in_the_example_too(run: Run) -> None:
    task = task_of(rain(), self_debate(1, order="given"), brier())
    log = run(task, says("50%"), model_roles={"debater_b": says("It is dry.")}).location
    (examples,) = read_examples(log, "brier_score")
    assert [turn.role for turn in examples.messages] == ["user", "assistant"] * 2
    assert "It is dry." in examples.messages[2].content


scores = st.lists(st.tuples(st.integers(0, 9), st.sampled_from([0.0, 0.1, 0.2, 0.5])), min_size=1, max_size=30)


@given(
    items=scores,
    count=st.integers(1, 40),
    share=st.floats(0.01, 1),
    best=st.sampled_from(["lowest", "highest"]),
    seed=st.integers(0, 5),
)
def test_the_best_are_chosen_one_a_question(
    items: list[tuple[int, float]], count: int, share: float, best: Any, seed: int
) -> None:
    pool = [example(f"q{question}", score) for question, score in items]
    selected = choose_examples(pool, count, share, best, seed)
    number = max(1, min(count, int(share * len(pool) + 1e-9)))
    ranked = sorted((score for _, score in items), reverse=best == "highest")
    edge = ranked[number - 1]
    better = {q for q, score in items if (score < edge if best == "lowest" else score > edge)}
    ids = [one.id for one in selected]
    assert len(ids) == len(set(ids)), "one a question"
    assert all(one.score <= edge if best == "lowest" else one.score >= edge for one in selected)
    assert {f"q{q}" for q in better} <= set(ids)
    assert len(selected) <= number
    if len({q for q, _ in items}) == len(items):
        assert len(selected) == number
        assert sorted((one.score for one in selected), reverse=best == "highest") == ranked[:number]
    assert choose_examples(pool, count, share, best, seed) == selected


def test_the_seed_draws_the_order_and_among_equals() -> None:
    pool = [example(f"q{i}", 0.1, event=f"e{i} {k}") for i in range(6) for k in range(3)]
    drawn = [choose_examples(pool, 18, 1, "lowest", seed) for seed in range(20)]
    assert len({tuple(one.id for one in selected) for selected in drawn}) > 10, "the order"
    assert len({one.event for selected in drawn for one in selected}) == 18, "which of a question's"
    few = [choose_examples(pool, 2, 1, "lowest", seed) for seed in range(20)]
    assert len({one.id for selected in few for one in selected}) == 6, "which of equals, not the first of the log"


def test_the_test_split_is_never_chosen() -> None:
    pool = [example("best", 0, split="test"), example("good", 0.1, split="validation"), example("bad", 0.9)]
    assert [choose_example.id for choose_example in choose_examples(pool, 1, 1, "lowest", 0)] == ["good"]
    assert {one.id for one in choose_examples(pool, 9, 1, "lowest", 0)} == {"good", "bad"}
    with pytest.raises(BadInput, match="All 1 examples are of the test split.*-T split=train.*another task.*.jsonl"):
        choose_examples(pool[:1], 9, 1, "lowest", 0)


def test_nothing_is_shown_of_what_is_asked() -> None:
    question = Question(domain="d", proposition="It rains.", event="flood", split="test")
    pool = [
        example("q", 0, proposition=None),
        example("same event", 0, event="flood"),
        example("same proposition", 0, proposition="It rains."),
        example("free", 0, proposition=None),
        example("other", 0),
    ]
    assert [one.id for one in examples_for(pool, "q", question, 10_000)] == ["free", "other"]
    free = Question(domain="d", form="free", event="flood", split="test")
    assert [one.id for one in examples_for(pool, "q", free, 10_000)] == ["same proposition", "free", "other"]


@given(lengths=st.lists(st.integers(0, 400), max_size=12), tokens=st.integers(1, 400))
def test_as_many_are_shown_as_the_allowance_holds(lengths: list[int], tokens: int) -> None:
    turns = [[Turn(role="user", content="x" * n), Turn(role="assistant", content="")] for n in lengths]
    pool = [example(f"q{i}", 0, messages=some) for i, some in enumerate(turns)]
    question = Question(domain="d", proposition="It rains.", event="flood", split="train")
    shown = examples_for(pool, "q", question, tokens)
    tokens_left = tokens - sum(n // 4 + 1 for n in (lengths[pool.index(one)] for one in shown))
    assert tokens_left >= 0
    assert [one for one in pool if one in shown] == shown, "in the order given"
    after = {one.id for one in shown}
    for one in pool:  # what was passed over did not fit in what was left then, so not now
        assert one.id in after or one.tokens > tokens_left


def test_examples_may_come_from_a_file(scored: EvalLog, tmp_path: Path) -> None:
    examples = read_examples(scored.location, "brier_score")
    (tmp_path / "examples.jsonl").write_text("\n".join(one.model_dump_json() for one in examples) + "\n\n")
    assert read_examples(str(tmp_path / "examples.jsonl"), "whatever") == examples


ROW: dict[str, Any] = json.loads(example("q", 0.5).model_dump_json())


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ({"score": float("nan")}, "not JSON"),
        ({"split": "dev", "score": "good"}, "the field `split`: .*'train', 'validation' or 'test'.*the field `score`"),
        ({"messages": ROW["messages"][:1]}, "the field `messages`: .*at least 2 items"),
        ({"messages": ROW["messages"][::-1]}, "the field `messages`: .*must alternate"),
        ({"messages": ROW["messages"] + ROW["messages"][:1]}, "the field `messages`: .*must alternate"),
        ({"messages": [{"role": "system", "content": "Hm."}] * 2}, "the field `messages.0.role`"),
    ],
    ids=str,
)
def test_a_bad_row_is_named_by_its_line(row: dict[str, Any], problem: str, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text(f"{json.dumps(ROW)}\n{json.dumps(ROW | row)}\n")
    with pytest.raises(BadInput, match=f"rows.jsonl line 2.*{problem}"):
        read_examples(str(tmp_path / "rows.jsonl"), "brier_score")


def bad_input(source: Path | str, score: str = "brier_score") -> str:
    with pytest.raises(BadInput) as error:
        read_examples(str(source), score)
    return str(error.value).replace("\\", "")


def test_a_file_that_cannot_be_read_is_refused_with_its_name(tmp_path: Path) -> None:
    for name, content in (("gone.eval", None), ("gone.jsonl", None), ("broken.eval", "no log"), ("broken.json", "{"),
                       ("notes.txt", "no log"), ("empty.jsonl", "\n"), ("broken.jsonl", "{")):  # fmt: skip
        if content is not None:
            (tmp_path / name).write_text(content)
        assert name in bad_input(tmp_path / name)
    assert "has no rows; write one example per line" in bad_input(tmp_path / "empty.jsonl")
    assert "cannot be read as a log (FileNotFoundError" in bad_input(tmp_path / "gone.eval")
    assert "give an .eval log" in bad_input(tmp_path / "notes.txt")


def test_a_log_without_the_score_is_refused_with_what_it_has(run: Run, scored: EvalLog) -> None:
    message = bad_input(scored.location, "brier")
    assert "none of its 40 samples has an answer and a number for score='brier'" in message
    assert "it has numbers for: accuracy, belief, brier_score, log_score, spherical_score. Name one" in message
    unscored = run(urns(n=2), score=False, epochs=1)
    assert "it has numbers for: nothing" in bad_input(unscored.location)


def test_a_log_of_another_task_is_read_and_parted_by_its_metadata_or_ids(run: Run) -> None:
    """A hash reserves one id in five, as `convert --any-task` does; a split of another name is none."""
    named = [Sample(id=name, input=f"{name}?", metadata={"split": name}) for name in ("train", "test", "dev")]
    plain = [Sample(id=i, input=[ChatMessageUser(content=f"{i}?")], target="x") for i in range(20)]
    other = run(Task(dataset=[*named, *plain], scorer=flat()), says("Hm."))
    by_id = {one.id: one for one in read_examples(other.location, "flat")}
    assert [by_id[name].split for name in ("train", "test")] == ["train", "test"]
    assert all(by_id[str(name)].split == split_of(f"task {name}") for name in ("dev", *range(20)))
    assert [(turn.role, turn.content) for turn in by_id["3"].messages] == [("user", "3?"), ("assistant", "Hm.")]
    assert (by_id["3"].event, by_id["3"].proposition, by_id["3"].score) == ("3", None, 0.25)


def test_scores_of_several_scorers_are_told_apart_by_their_keys(run: Run) -> None:
    log = log_of(run, says("50%"), direct(), martingale(), flat())
    assert [read_examples(log, key)[0].score for key in ("posterior", "brier_score", "flat")] == [0.5, 0.25, 0.25]
