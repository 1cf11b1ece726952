"""Self-debate: opposed positions are argued in turn, then the model concludes."""

from collections.abc import Sequence
from typing import Annotated, Literal

from inspect_ai.model import ChatMessage, ChatMessageAssistant, get_model, model_roles
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field

from truthgym.datasets.digests import text_number
from truthgym.datasets.errors import validate_call
from truthgym.datasets.question import Question, question_of, question_text
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence, with_evidence
from truthgym.solvers.trajectory import user_message

OPEN = "Before you answer, the following positions will be argued in turn:\n{positions}"
ARGUE = (
    "Turn {turn} of {turns}: argue for this position.\n\n{position}\n\nMake the strongest honest case for it{rebuttal}"
    ". Do not give a final answer yet."
)
REBUTTAL = ", and respond to what has been said against it"
OTHER_TURN = "Turn {turn} of {turns}: another debater makes the case for this position.\n\n{position}\n\n{text}"
DEBATE = (
    "{question}\n\nYou are taking part in a debate on this question, and others argue against you. Your position:\n\n"
    "{position}"
)
OPPONENT_TURN = "An opponent makes the case for another position.\n\n{position}\n\n{text}"
CONCLUDE = (
    "Every position has been argued. Weigh them on their merits, not by who spoke first or best, and say what you "
    "think yourself."
)
TRUE, FALSE = "The following is true: {proposition}", "The following is false: {proposition}"
OPTION = "The answer is: {option}."
FREE = ("The answer that seems most likely at first sight.", "The best answer that contradicts the most likely one.")
ROLES = ("debater_a", "debater_b")

Order = Literal["counterbalanced", "given", "reversed"]
Position = Annotated[str, Field(pattern=r"\S")]


@solver
@validate_call
def self_debate(
    turns: Annotated[int, Field(ge=1)] = 2,
    sides: Annotated[Sequence[Position], Field(min_length=2)] | None = None,
    order: Order = "counterbalanced",
) -> Solver:
    """Argue every position in turn before answering. `turns` x positions + 1 model calls a sample.

    The model argues all positions itself, in one conversation. A model with the role `debater_a` or `debater_b` argues
    in its place, in a separate context, for every second position each. Its calls are among those counted; its messages
    reach the model as user messages and are not trained on. All evidence is given at once, before the first turn.

    Args:
        turns: Times each position is argued, 1 or more.
        sides: The positions, two or more sentences: `-S 'sides=["It rained, heavily.", "It was dry."]'`. None takes
            them from the question: its options; else that its proposition is true and that it is false; else the most
            likely answer and its best rival.
        order: Who speaks first. "counterbalanced" varies it, and which debater argues which position, by question and
            epoch; "given" uses the order of the positions (true first), "reversed" the opposite.

    Raises:
        BadInput: `turns` is not an integer of at least 1, there are fewer than two sides, or the order is unknown.
    """
    fixed_positions = None if sides is None else [side.strip() for side in sides]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        positions = fixed_positions or positions_of(question)
        speakers, roles = speaking_order(str(state.sample_id), state.epoch, len(positions), order)
        debaters = {i: (role, get_model(role=role)) for i, role in enumerate(roles) if role in model_roles()}
        total = turns * len(positions)
        full_question = with_evidence(question_text(state), question)
        with conversation(state, generate) as talk:
            talk.ask_question(
                evidence(question.evidence), OPEN.format(positions="\n".join(f"- {positions[i]}" for i in speakers))
            )
            speeches: list[tuple[int, str]] = []
            for turn in range(1, total + 1):
                i = speakers[(turn - 1) % len(positions)]
                place = {"turn": turn, "turns": total, "position": positions[i]}
                argue = ARGUE.format(**place, rebuttal=REBUTTAL if speeches else "")
                name = f"turn {turn}: {positions[i]}"
                if i in debaters:
                    role, model = debaters[i]
                    messages = debater_view(i, full_question, positions, speeches, argue, state.epoch)
                    text = await talk.ask_role(role, model, messages, name)
                    talk.send(OTHER_TURN.format(**place, text=text), speaker=role)
                else:
                    talk.send(argue)
                    text = await talk.generate("reasoning", name)
                speeches.append((i, text))
            talk.send(CONCLUDE, answer_instruction(question))
            await talk.generate("answer", "answer")
        return talk.state

    return solve


def positions_of(question: Question) -> list[str]:
    """The positions that can be taken on a question: two or more sentences."""
    if len(question.options) >= 2:
        return [OPTION.format(option=option) for option in question.options]
    if question.proposition:
        return [side.format(proposition=question.proposition) for side in (TRUE, FALSE)]
    return list(FREE)


def speaking_order(question: str, epoch: int, positions: int, order: Order) -> tuple[list[int], list[str]]:
    """The order in which positions are argued, and the role that argues each.

    Counterbalanced, the first speaker moves on by one each epoch, and the two roles swap once every position has been
    first. Where a question starts is a hash of its id.
    """
    key = text_number(question)
    first = swapped = 0
    if order == "counterbalanced":
        first, swapped = (key + epoch) % positions, (key // positions + epoch // positions) % len(ROLES)
    speakers = [(first + i) % positions for i in range(positions)]
    if order == "reversed":
        speakers.reverse()
    return speakers, [ROLES[(i + swapped) % len(ROLES)] for i in range(positions)]


def debater_view(
    side: int, question: str, positions: Sequence[str], speeches: Sequence[tuple[int, str]], argue: str, epoch: int
) -> list[ChatMessage]:
    """The debate from the side of one position: its own speeches as the assistant, everything else as the user."""
    pending = [DEBATE.format(question=question, position=positions[side])]
    messages: list[ChatMessage] = []
    for i, text in speeches:
        if i == side:
            messages += [user_message("\n\n".join(pending), epoch), ChatMessageAssistant(content=text)]
            pending = []
        else:
            pending.append(OPPONENT_TURN.format(position=positions[i], text=text))
    return [*messages, user_message("\n\n".join([*pending, argue]), epoch)]
