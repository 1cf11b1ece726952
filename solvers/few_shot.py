"""Few-shot: the best trajectories of a scored log are shown as examples before the question."""

from typing import Annotated

from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field, SkipValidation

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import EndedEarly, conversation
from truthgym.solvers.examples import Best, choose_examples, examples_for, read_examples
from truthgym.solvers.wrapped_solver import SolverSpec, wrapped_solver


@solver
@validate_call
def few_shot(
    source: str = "",
    count: Annotated[int, Field(ge=1)] = 100,
    share: Annotated[float, Field(gt=0, le=1)] = 0.1,
    seed: int = 0,
    score: str = "brier_score",
    best: Best = "lowest",
    tokens: Annotated[int, Field(ge=1)] = 16_000,
    base: Annotated[SolverSpec, SkipValidation] = "direct",
) -> Solver:
    """Show the best trajectories of a scored log before the question. Makes the calls of `base`.

    Each example is a question and the model's replies, as earlier turns of the conversation, without reasoning content
    that a provider keeps separate. The examples are the log's best trajectories, the smaller of `count` and `share` of
    them, one per question, in an order drawn once. Each question is shown as many of these as fit into `tokens`, but
    never the question itself, one of the same event, or one asked after its day. Trajectories of the test split are
    never shown. A log of any task will do, with one of its scores (`-S score=choice -S best=highest`). Examples are
    part of the trajectory as auxiliary steps and are not trained on. A question with no example left stays unscored.

    Selecting by outcome favours forecasts that were bold and lucky, so the model may become overconfident. Watch
    `calibration_slope`.

    Args:
        source: Path of a scored log, or of a .jsonl file whose rows are `examples.Example`.
        count: Maximum number of trajectories, 1 or more.
        share: Maximum share of the log's scored trajectories outside the test split, above 0 and at most 1.
        seed: Draws one of several trajectories of a question, and the order.
        score: The score that ranks them: a key of a scorer's values, or the name of a scorer with one number or letter.
        best: Whether the "lowest" or the "highest" score is best.
        tokens: Budget for all examples, counting four characters as one token, 1 or more.
        base: The solver that reasons after the examples: its name, or {name: {argument: value}}.

    Raises:
        BadInput: An argument is out of range, the source cannot be read, has no such score, or holds only trajectories
            of the test split or none that fits into `tokens`; or the base is unknown.
    """
    if not source:
        raise BadInput("few_shot: source is missing; write -S source=LOG.eval, the path of a scored log")
    examples = choose_examples(read_examples(source, score), count, share, best, seed)
    if (smallest := min(example.tokens for example in examples)) > tokens:
        raise BadInput(
            f"few_shot: none of {len(examples)} examples fits into tokens={tokens}; the smallest takes {smallest}"
        )
    reason = wrapped_solver("few_shot", base)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        fitting = examples_for(examples, str(state.sample_id), question_of(state, Question), tokens)
        with conversation(state, generate) as talk:
            if not fitting:
                raise EndedEarly(
                    f"None of {len(examples)} examples can be shown with this question: each is of the same event or "
                    "of a later day."
                )
            for example in fitting:
                talk.add_examples(example.as_messages())
        return await reason(state, generate) if talk.ended is None else state

    return solve
