"""Direct answer: the question with all its evidence, one reply."""

from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import validate_call
from truthgym.datasets.inspect_private import answer_character
from truthgym.datasets.question import PlainQuestion, Question, question_of
from truthgym.solvers.conversation import conversation, paragraphs

EVIDENCE = "Evidence so far:\n{pieces}"
HOW_LIKELY = "How likely is it that the following statement is true?\n\n{proposition}"
STATE_BELIEF = (
    HOW_LIKELY + "\n\n"
    r"End your reply with a line of the form \finalBeliefProb{{p}}, where p is that probability as a decimal from 0 to "
    "1."
)
CHOOSE = "Choose one of these options and say which one:\n{options}"
CONCLUDE = "Give your answer."
CHOOSE_LETTER = (
    "Give your answer. The last line of your response should be of the following format: 'ANSWER: $LETTER' (without "
    "quotes) where LETTER is one of {letters}."
)
CHOOSE_LETTERS = (
    "Give your answer. The last line of your response should be of the following format: 'ANSWER: $LETTERS' (without "
    "quotes) where LETTERS is one or more of {letters}."
)
"""The forms of Inspect's `multiple_choice`, which its scorer `choice` reads."""


@solver
@validate_call
def direct() -> Solver:
    """Ask for the answer in one turn. One model call a sample.

    A reasoning model's reasoning content and its reply are two steps of the trajectory.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        with conversation(state, generate) as talk:
            talk.ask_question(evidence(question.evidence), answer_instruction(question))
            await talk.generate("answer")
        return talk.state

    return solve


def evidence(pieces: list[str]) -> str:
    """Format pieces of evidence as a list, or return "" if there are none."""
    return EVIDENCE.format(pieces="\n".join(f"- {piece}" for piece in pieces)) if pieces else ""


def with_evidence(text: str, question: Question) -> str:
    """A question's text, followed by all its evidence."""
    return paragraphs(text, evidence(question.evidence))


def answer_instruction(question: Question) -> str:
    r"""What the answer must contain: for a question with a proposition, a stated belief.

    The belief is `\finalBeliefProb{p}` with p from 0 to 1, which `scorers.beliefs.parsing` reads. A multiple-choice
    question of any other task is answered by letter.
    """
    if isinstance(question, PlainQuestion) and question.options:
        letters = ",".join(map(answer_character, range(len(question.options))))
        return (CHOOSE_LETTERS if len(question.right) > 1 else CHOOSE_LETTER).format(letters=letters)
    options = CHOOSE.format(options="\n".join(f"- {option}" for option in question.options)) if question.options else ""
    return paragraphs(options, belief_instruction(question))


def belief_instruction(question: Question) -> str:
    """The request for the belief in a question's proposition, or for an answer where it has none."""
    return STATE_BELIEF.format(proposition=question.proposition) if question.proposition else CONCLUDE


def asks_for_answer(text: str, question: Question) -> bool:
    """Whether a message contains the answer instruction of a question, in this or an earlier version's wording."""
    if isinstance(question, PlainQuestion) and question.options:
        return "'ANSWER: $LETTER" in text
    core = HOW_LIKELY.format(proposition=question.proposition) if question.proposition else CONCLUDE
    return core in text
