"""Self-debate: opposed positions are argued in turn, and then the model concludes."""

from collections.abc import Sequence
from hashlib import sha256
from typing import Literal, get_args

from inspect_ai.model import ChatMessage, ChatMessageAssistant, get_model, model_roles
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.errors import BadInput, one_of, whole_number
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import conversation
from truthgym.solvers.direct import answer_instruction, evidence
from truthgym.solvers.trajectory import user_message

OPEN = "Before an answer is given, these positions are argued in turn:\n{positions}"
ARGUE = (
    "Turn {turn} of {turns}: argue for this position.\n\n{position}\n\nMake the strongest honest case for it{meet}. "
    "Do not give a final answer yet."
)
MEET = ", and meet what has been said against it"
ARGUED = "Turn {turn} of {turns}: someone else argues.\n\n{position}\n\n{text}"
DEBATE = "{question}\n\nYou take part in a debate on this question, others against you. Your position:\n\n{position}"
AGAINST = "Argued against you.\n\n{position}\n\n{text}"
CONCLUDE = (
    "Every position has been argued. Weigh them by their merits, not by who spoke first or best, and say what you "
    "think yourself."
)
TRUE, FALSE = "The following is true: {proposition}", "The following is false: {proposition}"
OPTION = "The answer is: {option}."
FREE = ("The answer that seems likeliest at first sight.", "The best answer that goes against the likeliest one.")
ROLES = ("debater_a", "debater_b")

Order = Literal["counterbalanced", "given", "reversed"]


@solver
def self_debate(turns: int = 2, sides: Sequence[str] | None = None, order: Order = "counterbalanced") -> Solver:
    """Argue every position in turn before answering. `turns` x positions + 1 model calls a sample.

    The model argues all positions itself, in one conversation. A model that is bound to the role `debater_a` or
    `debater_b` argues in its place, in a context of its own, for every second position each: its calls are among those
    counted, its words reach the model as something told, and training leaves them out. All evidence is given at once,
    before the first turn.

    Args:
        turns: Times each position is argued, 1 or more.
        sides: The positions, two or more, as sentences: `-S 'sides=["It rained, heavily.", "It was dry."]'`. None takes
            them from the question: its options, or else that its proposition is true and that it is false, or else the
            likeliest answer and its best rival.
        order: Who speaks first. "counterbalanced" changes it, and which debater holds which position, with question
            and epoch; "given" is the order of the positions (true first), "reversed" the other.

    Raises:
        BadInput: `turns` is not a whole number from 1 up, fewer than two sides, or an unknown order.
    """
    whole_number("self_debate", "turns", turns, 1)
    listed = isinstance(sides, list | tuple)
    if sides is not None and (not listed or len(sides) < 2 or not all(str(side).strip() for side in sides)):
        raise BadInput(f"self_debate: sides={sides!r} cannot be used; give two positions or more, each a sentence")
    one_of("order", order, get_args(Order))
    given = None if sides is None else [str(side).strip() for side in sides]

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        positions = given or positions_of(question)
        speaking, roles = speaking_order(str(state.sample_id), state.epoch, len(positions), order)
        debaters = {i: (role, get_model(role=role)) for i, role in enumerate(roles) if role in model_roles()}
        number = turns * len(positions)
        with conversation(state, generate) as talk:
            talk.ask_question(
                evidence(question.evidence), OPEN.format(positions="\n".join(f"- {positions[i]}" for i in speaking))
            )
            said: list[tuple[int, str]] = []
            for turn in range(1, number + 1):
                i = speaking[(turn - 1) % len(positions)]
                place = {"turn": turn, "turns": number, "position": positions[i]}
                argue = ARGUE.format(**place, meet=MEET if said else "")
                name = f"turn {turn}: {positions[i]}"
                if i in debaters:
                    role, model = debaters[i]
                    heard = debater_view(i, state.input_text, question, positions, said, argue, state.epoch)
                    text = await talk.ask_role(role, model, heard, name)
                    talk.send(ARGUED.format(**place, text=text), speaker=role)
                else:
                    talk.send(argue)
                    text = await talk.generate("reasoning", name)
                said.append((i, text))
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
    """Say in which order positions are argued, and which role argues each.

    Counterbalanced, the first speaker moves on by one with every epoch, and the roles change places after every
    position has been first; where a question begins is drawn from its id.

    Returns:
        The positions by their number, from 0, in the order of speaking; and the role of each position.
    """
    key = int.from_bytes(sha256(question.encode()).digest()[:8])
    first, swapped = 0, 0
    if order == "counterbalanced":
        first, swapped = (key + epoch) % positions, (key // positions + epoch // positions) % len(ROLES)
    speaking = [(first + i) % positions for i in range(positions)]
    if order == "reversed":
        speaking.reverse()
    return speaking, [ROLES[(i + swapped) % len(ROLES)] for i in range(positions)]


def debater_view(
    side: int,
    asked: str,
    question: Question,
    positions: Sequence[str],
    said: Sequence[tuple[int, str]],
    argue: str,
    epoch: int,
) -> list[ChatMessage]:
    """The debate as one debater sees it: its own turns as its replies, all else as told to it."""
    told = [
        DEBATE.format(
            question="\n\n".join(p for p in (asked, evidence(question.evidence)) if p), position=positions[side]
        )
    ]
    messages: list[ChatMessage] = []
    for i, text in said:
        if i == side:
            messages += [user_message("\n\n".join(told), epoch), ChatMessageAssistant(content=text)]
            told = []
        else:
            told.append(AGAINST.format(position=positions[i], text=text))
    return [*messages, user_message("\n\n".join([*told, argue]), epoch)]
