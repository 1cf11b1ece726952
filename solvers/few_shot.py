"""Few-shot: the best trajectories of a scored log stand before the question as examples."""

from typing import get_args

from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import BadInput, one_of, whole_number
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import EndedEarly, conversation
from truthgym.solvers.examples import Best, choose_examples, examples_for, read_examples
from truthgym.solvers.wrapped_solver import SolverSpec, wrapped_solver


@solver
def few_shot(
    source: str = "",
    count: int = 100,
    share: float = 0.1,
    seed: int = 0,
    score: str = "brier_score",
    best: Best = "lowest",
    tokens: int = 16_000,
    base: SolverSpec = "direct",
) -> Solver:
    """Show the best trajectories of a scored log before the question. The calls of `base`.

    Each example is a question with what the model replied, as earlier turns of the conversation; reasoning that a
    provider keeps apart is left out. Chosen are the best of the log's trajectories, as many as the smaller of `count`
    and `share`, one a question, in an order drawn once; of these, every question is shown as many as the allowance of
    tokens holds, but never itself, nor one of its event, nor one asked after its day. Trajectories of the test split
    are never shown. Examples are part of the trajectory as auxiliary and are not trained on. A question for which no
    example is left stays unscored.

    Choosing by how a forecast turned out favours those that were bold and lucky: the model may learn to be too sure.
    Watch `calibration_slope`.

    Args:
        source: Path of a scored log, or of a .jsonl file whose rows are `examples.Example`.
        count: Trajectories at most, 1 or more.
        share: Share of the log's scored trajectories outside the test split, above 0 and at most 1.
        seed: Another seed draws others of the same question, and another order.
        score: What they are ranked by: the key of a scorer's values, or the name of a scorer with one number.
        best: Whether the "lowest" or the "highest" score is best.
        tokens: Allowance for all examples, a token taken as four characters, 1 or more.
        base: The solver that reasons after them: its name, or {name: {argument: value}}.

    Raises:
        BadInput: An argument outside its range, a source that cannot be read, has no such score, or holds only
            trajectories of the test split or none within the tokens; an unknown base.
    """
    if not source:
        raise BadInput("few_shot: no source is given; write -S source=LOG.eval, the path of a scored log")
    whole_number("few_shot", "count", count, 1)
    whole_number("few_shot", "tokens", tokens, 1)
    if not isinstance(share, int | float) or not 0 < share <= 1:
        raise BadInput(f"few_shot: share={share!r} cannot be used; give a share above 0 and at most 1")
    one_of("best", best, get_args(Best))
    examples = choose_examples(read_examples(str(source), score), count, share, best, seed)
    if min(example.tokens for example in examples) > tokens:
        raise BadInput(f"few_shot: none of {len(examples)} examples is within tokens={tokens}; allow more")
    reason = wrapped_solver("few_shot", base)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        shown = examples_for(examples, str(state.sample_id), question_of(state, Question), tokens)
        with conversation(state, generate) as talk:
            if not shown:
                left_out = "its own event and later days are left out"
                raise EndedEarly(f"Of {len(examples)} examples none is left for this question: {left_out}.")
            for example in shown:
                talk.add_examples(example.as_messages())
        return await reason(state, generate) if talk.ended is None else state

    return solve
