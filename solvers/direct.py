"""Direct answer: the question and all its evidence at once, one reply."""

from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation

EVIDENCE = "Evidence so far:\n{pieces}"
STATE_BELIEF = (
    "How likely is it that the following statement is true?\n\n{proposition}\n\n"
    r"End your reply with a line of the form \finalBeliefProb{{p}}, p being that probability as a decimal from 0 to 1."
)
CHOOSE = "Choose one of these, and say which:\n{options}"
CONCLUDE = "Give your answer."


@solver
def direct() -> Solver:
    """Ask for the answer in one go. One model call a sample.

    A reasoning model's own reasoning and its reply are two steps of the trajectory.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), answer_instruction(question))
            await talk.generate("answer")
        return talk.state

    return solve


def evidence(pieces: list[str]) -> str:
    """Write pieces of evidence as a list, or nothing where there are none."""
    return EVIDENCE.format(pieces="\n".join(f"- {piece}" for piece in pieces)) if pieces else ""


def answer_instruction(question: Question) -> str:
    r"""Say what the answer must hold: a stated belief where there is a proposition.

    The belief stands in `\finalBeliefProb{p}`, p from 0 to 1, which `scorers.beliefs.read_belief` reads.
    """
    options = CHOOSE.format(options="\n".join(f"- {option}" for option in question.options)) if question.options else ""
    asked = STATE_BELIEF.format(proposition=question.proposition) if question.proposition else CONCLUDE
    return "\n\n".join(part for part in (options, asked) if part)
