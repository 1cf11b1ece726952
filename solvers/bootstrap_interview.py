"""Bootstrap interview: auxiliary questions first, then the main question."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Annotated, Literal

from inspect_ai.dataset import Sample
from inspect_ai.model import Model
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field

from truthgym.datasets.domains import DOMAINS, check_questions, other_questions, truth_seeking_questions
from truthgym.datasets.errors import BadInput, names_in, one_of, validate_call
from truthgym.datasets.loading.domain import file_of
from truthgym.datasets.question import ASKED, Question, ask_about, question_of, question_text
from truthgym.solvers.conversation import Conversation, EndedEarly, conversation
from truthgym.solvers.direct import answer_instruction, evidence, with_evidence
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import user_message

ASK = "Interview question {k} of {questions}, before the main question. Reply in a short paragraph.\n\n{text}"
MAIN = "The interview is over. Here is the main question."
WRITE = (
    "Someone is about to be asked the question below. They are interviewed first, to help them think well about it. "
    "Write {what}. {manner}Do not ask the question itself, do not answer it, and do not hint at an answer.\n\n"
    "<question>\n{question}\n</question>{interview}\n\nReply with {reply}, and nothing else."
)
ALL = ("{questions} interview questions that lead up to it", "the questions, one per line")
NEXT = ("interview question {k} of {questions}, building on what they have said so far", "that question, on one line")
SO_FAR = "\n\n<interview>\n{exchanges}\n</interview>"
MANNERS = {
    "curriculum": "Build up gradually: start with something simple, and let each question build on the previous ones. ",
    "contradiction_seeking": "Look for contradictions: ask questions whose answers may turn out to be inconsistent "
    "with each other. ",
    "synergistic": "Connect fields: ask what other fields can contribute to this question. ",
    "socratic": "Ask as Socrates would: about definitions, reasons, counterexamples and hidden assumptions. ",
}

MARKS = " \t\r-*•\"'[],"
"""Characters that may surround a question in a list."""
LABEL = re.compile(r"^(?:Q(?:uestion)?\s*)?\d{0,2}\s*[.):](?!\d)\s*")
"""A question's number in a list. A digit right after it belongs to the question instead: 1.5, 3:1."""
BETWEEN = re.compile(r"\n|(?<=\?)[\"'],\s*(?=[\"'])")
"""What separates two questions."""

Mode = Literal["fixed_sequence", "iid", "stationary_ood", "llm_preset", "llm_adaptive"]


@solver
@validate_call
def bootstrap_interview(
    questions: Annotated[int, Field(ge=1)] = 3,
    mode: Mode = "iid",
    instructions: str | Sequence[str] = (),
    domains: str | Sequence[str] = (),
    seed: int = 0,
) -> Solver:
    """Ask auxiliary questions before the main one, in one conversation. `questions` + 1 model calls a sample.

    The modes "llm_preset" and "llm_adaptive" make 1 and `questions` further calls to the role `interviewer`, which sees
    the main question without its evidence. The model's replies in the interview are auxiliary steps of the trajectory.
    They are not trained on (the score of the main question says nothing about them), and no belief is measured in the
    interview.

    Args:
        questions: Number of auxiliary questions, 1 or more.
        mode: Where they come from. "fixed_sequence": a bundled list on seeking the truth. "iid": the main question's
            domain with its default arguments (whatever the task's source or difficulty), or your own file of questions.
            "stationary_ood": other domains. Both draw from the train split, anew each epoch, never a question of the
            main question's event or one written after its day, and reveal no outcome; if too few are left, the sample
            is unscored. "llm_preset": the interviewer writes all questions at once (if it writes fewer, those are
            asked). "llm_adaptive": it writes one at a time, given the conversation.
        instructions: For the interviewer, one or several: "curriculum", "contradiction_seeking", "synergistic",
            "socratic".
        domains: For "stationary_ood": the domains to draw from, taken in turn.
        seed: Seed of the draw.

    Raises:
        BadInput: `questions` is out of range; or a mode, instruction or domain is unknown or does not fit the mode. On
            the first sample, before its first model call: no model has the role `interviewer`, or the main question's
            domain is one of `domains`.
    """
    kinds, others = names_in(instructions), names_in(domains)
    for kind in kinds:
        one_of("instruction", kind, list(MANNERS))
    for domain in others:
        one_of("domain", domain, list(DOMAINS))
        check_questions(domain, questions)
    most = len(truth_seeking_questions())
    writes = mode in ("llm_preset", "llm_adaptive")
    problems = []
    if mode == "fixed_sequence" and questions > most:
        problems.append(f"questions={questions} with mode=fixed_sequence; give at most {most}")
    if kinds and not writes:
        names = ",".join(kinds)
        problems.append(f"instructions={names} with mode={mode}, which has no interviewer; use mode=llm_adaptive")
    if bool(others) != (mode == "stationary_ood"):
        names, options = ",".join(others) or "none", ", ".join(DOMAINS)
        problems.append(f"mode={mode} with domains={names}; only mode=stationary_ood takes domains, of: {options}")
    if problems:
        raise BadInput(f"bootstrap_interview: {'; '.join(problems)}")

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        if question.domain in others:
            raise BadInput(
                f"bootstrap_interview: domains={','.join(others)} includes the main question's domain, "
                f"{question.domain}; give other domains, or use mode=iid"
            )
        interviewer = required_model("interviewer", "bootstrap_interview") if writes else None
        items = [] if interviewer else _draw_questions(mode, question, questions, others, seed, state.epoch)
        with conversation(state, generate) as talk:
            manner = "".join(MANNERS[kind] for kind in kinds)
            interview = _Interview(talk, question_text(state), questions, manner, interviewer)
            if mode == "llm_adaptive":
                for k in range(1, questions + 1):
                    await interview.ask(k, (await interview.write(NEXT, k))[0])
            else:
                auxiliaries = (await interview.write(ALL, 0))[:questions] if interviewer else items
                if not interviewer and len(auxiliaries) < questions:
                    raise EndedEarly(f"Only {len(auxiliaries)} other questions were written by the day of this one.")
                interview.questions = len(auxiliaries)
                for k, auxiliary in enumerate(auxiliaries, start=1):
                    await interview.ask(k, auxiliary)
            talk.ask_question(evidence(question.evidence), answer_instruction(question), before=MAIN)
            await talk.generate("answer", "answer")
        return talk.state

    return solve


@dataclass
class _Interview:
    """The interview of one sample."""

    talk: Conversation
    main_question: str
    questions: int
    manner: str
    """Instructions to the interviewer on how to ask."""
    interviewer: Model | None
    exchanges: list[str] = field(default_factory=list)

    async def ask(self, k: int, question: str | Sample) -> None:
        """Ask auxiliary question number k and record the reply."""
        main, text = ASKED.get(), str(question)
        if isinstance(question, Sample):
            text = with_evidence(str(question.input), question.metadata_as(Question))
            ask_about(question, self.talk.state.epoch)
        speaker = "interviewer" if self.interviewer else None
        self.talk.send(ASK.format(k=k, questions=self.questions, text=text), speaker=speaker)
        reply = await self.talk.generate("auxiliary", f"interview {k}", trainable=False)
        ASKED.set(main)
        self.exchanges += [f"Question: {text}", f"Reply: {reply}"]

    async def write(self, request: tuple[str, str], k: int) -> list[str]:
        """Have the interviewer write questions: `ALL`, or `NEXT` for number k. Returns one or more."""
        assert self.interviewer is not None
        what, reply_form = (part.format(k=k, questions=self.questions) for part in request)
        interview = SO_FAR.format(exchanges="\n\n".join(self.exchanges)) if self.exchanges else ""
        text = WRITE.format(
            what=what, manner=self.manner, question=self.main_question, interview=interview, reply=reply_form
        )
        messages = [user_message(text, self.talk.state.epoch)]
        name = f"interviewer {k}" if k else "interviewer"
        reply = await self.talk.ask_role("interviewer", self.interviewer, messages, name)
        usable = usable_questions(reply, self.main_question)
        if not usable:
            raise EndedEarly(f"The interviewer returned no usable question, but: {reply.strip()[:80]!r}")
        return usable


def usable_questions(reply: str, main_question: str) -> list[str]:
    """The questions in an interviewer's reply: lines that end with a question mark and are not the main question."""
    questions = [LABEL.sub("", line.strip(MARKS)).strip(MARKS) for line in BETWEEN.split(reply)]
    main = {_words(line) for line in main_question.split("\n")}
    return [line for line in questions if line.endswith(("?", "？")) and _words(line) and _words(line) not in main]


def _words(line: str) -> str:
    return " ".join(re.findall(r"\w+", line.casefold()))


def _draw_questions(
    mode: Mode, main: Question, n: int, others: Sequence[str], seed: int, epoch: int
) -> Sequence[str | Sample]:
    if mode == "fixed_sequence":
        return truth_seeking_questions()[:n]
    if not others and main.domain not in DOMAINS and not file_of(main.domain, main.event):
        raise BadInput(
            f"bootstrap_interview: mode=iid asks other questions of the main question's domain, and {main.domain!r} "
            "has none here; use mode=fixed_sequence, mode=stationary_ood with domains=urns, or mode=llm_preset"
        )
    domains = [(others or [main.domain])[k % max(len(others), 1)] for k in range(n)]
    pools = {
        domain: iter(other_questions(domain, main, domains.count(domain), seed, main.event, epoch))
        for domain in dict.fromkeys(domains)
    }
    return [item for domain in domains for item in islice(pools[domain], 1)]
