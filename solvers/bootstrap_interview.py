"""Bootstrap interview: auxiliary questions first, and then the one that is meant."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Literal, get_args

from inspect_ai.model import Model
from inspect_ai.solver import Generate, Solver, TaskState, solver

from truthgym.datasets.domains import DOMAINS, check_questions, other_questions, truth_seeking_questions
from truthgym.datasets.errors import BadInput, one_of, whole_number
from truthgym.datasets.question import Question, question_of
from truthgym.solvers.conversation import Conversation, EndedEarly, conversation
from truthgym.solvers.direct import answer_instruction, evidence
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import user_message

ASK = "Interview question {k} of {questions}, before the question that matters. Reply in a short paragraph.\n\n{text}"
MAIN = "The interview is over. Now the question that matters."
WRITE = (
    "Someone is about to be asked the question below, and is interviewed first so that they will think well about it. "
    "Write {what}. {manner}Do not ask the question itself, do not answer it, do not hint at an answer.\n\n"
    "<question>\n{question}\n</question>{so_far}\n\nReply with {reply}, and nothing else."
)
ALL = ("{questions} interview questions that lead up to it", "the questions alone, one a line")
NEXT = (
    "interview question {k} of {questions}, going by what they have said so far",
    "that question alone, on one line",
)
SO_FAR = "\n\n<interview>\n{said}\n</interview>"
MANNERS = {
    "curriculum": "Build up: begin with what is simple, and let each question rest on those before it. ",
    "contradiction_seeking": "Look for contradictions: ask what brings answers to light that cannot all be held. ",
    "synergistic": "Join fields: ask what other fields know that bears on this one. ",
    "socratic": "Ask as Socrates did: for definitions, reasons and counterexamples, and what is taken for granted. ",
}

MARKS = " \t\r-*•\"'[],"
"""What may stand round a question in a list."""
LABEL = re.compile(r"^(?:Q(?:uestion)?\s*)?\d{0,2}\s*[.):](?!\d)\s*")
"""What may number it. A digit behind it makes it part of the question: 1.5, 3:1."""
BETWEEN = re.compile(r"\n|(?<=\?)[\"'],\s*(?=[\"'])")
"""What stands between two questions."""

Mode = Literal["fixed_sequence", "iid", "stationary_ood", "llm_preset", "llm_adaptive"]
Instruction = Literal["curriculum", "contradiction_seeking", "synergistic", "socratic"]


@solver
def bootstrap_interview(
    questions: int = 3,
    mode: Mode = "iid",
    instructions: str | Sequence[str] = (),
    domains: str | Sequence[str] = (),
    seed: int = 0,
) -> Solver:
    """Ask auxiliary questions before the main one, in one conversation. `questions` + 1 model calls a sample.

    The modes "llm_preset" and "llm_adaptive" make 1 and `questions` calls more, to the role `interviewer`, which is
    shown the main question without its evidence. What the model says in the interview is part of the trajectory as
    auxiliary, is not trained on (the score of the main question does not speak for it), and no belief is measured in
    it.

    Args:
        questions: Auxiliary questions, 1 or more.
        mode: Where they come from. "fixed_sequence": a bundled list on seeking the truth. "iid": the main question's
            domain, as it is without arguments (whatever the task's source or difficulty). "stationary_ood": other
            domains. Both draw from the train split, anew in each epoch, never the main question's event nor what was
            written after its day, and show no outcome; where too few are left, the sample is unscored. "llm_preset":
            the interviewer writes all at once (where it writes fewer, those are asked). "llm_adaptive": it writes one
            at a time, given the conversation.
        instructions: For the interviewer, one or several: "curriculum", "contradiction_seeking", "synergistic",
            "socratic".
        domains: For "stationary_ood": the domains to draw from, each question from one of them in turn.
        seed: Another seed draws other questions.

    Raises:
        BadInput: `questions` outside its range, an unknown mode, instruction or domain, or one that the mode does not
            use. On the first sample, before its first model call: no model has the role `interviewer`, or the question
            is of one of `domains`.
    """
    kinds, others = _names("instructions", instructions), _names("domains", domains)
    one_of("mode", mode, get_args(Mode))
    for kind in kinds:
        one_of("instruction", kind, list(MANNERS))
    for domain in others:
        one_of("domain", domain, list(DOMAINS))
    most = len(truth_seeking_questions()) if mode == "fixed_sequence" else None
    whole_number("bootstrap_interview", "questions", questions, 1, most)
    for domain in others:
        check_questions(domain, questions)
    writes = mode in ("llm_preset", "llm_adaptive")
    if kinds and not writes:
        raise BadInput(f"bootstrap_interview: mode={mode} has no interviewer to take instructions; leave them out")
    if bool(others) != (mode == "stationary_ood"):
        raise BadInput(
            f"bootstrap_interview: mode={mode} with domains={','.join(others) or 'none'} cannot be used; name other "
            f"domains with stationary_ood, and only there; known: {', '.join(DOMAINS)}"
        )

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        question = question_of(state, Question)
        if question.domain in others:
            raise BadInput(
                f"bootstrap_interview: domains={','.join(others)} names the domain that is asked, {question.domain}; "
                "name others, or use mode=iid"
            )
        interviewer = required_model("interviewer", "bootstrap_interview") if writes else None
        drawn = [] if interviewer else _drawn(mode, question, questions, others, seed, state.epoch)
        with conversation(state, generate) as talk:
            interview = _Interview(
                talk, state.input_text, questions, "".join(MANNERS[kind] for kind in kinds), interviewer
            )
            if mode == "llm_adaptive":
                for k in range(1, questions + 1):
                    await interview.ask(k, (await interview.written(NEXT, k))[0])
            else:
                texts = (await interview.written(ALL, 0))[:questions] if interviewer else drawn
                if not interviewer and len(texts) < questions:
                    raise EndedEarly(f"Only {len(texts)} other questions were written by the day of this one.")
                interview.questions = len(texts)
                for k, text in enumerate(texts, start=1):
                    await interview.ask(k, text)
            talk.ask_question(evidence(question.evidence), answer_instruction(question), before=MAIN)
            await talk.generate("answer", "answer")
        return talk.state

    return solve


@dataclass
class _Interview:
    """The interview of one sample."""

    talk: Conversation
    asked: str
    """The main question."""
    questions: int
    manner: str
    """What the interviewer is told of how to ask."""
    interviewer: Model | None
    said: list[str] = field(default_factory=list)

    async def ask(self, k: int, text: str) -> None:
        """Ask an auxiliary question, and hear the reply."""
        speaker = "interviewer" if self.interviewer else None
        self.talk.send(ASK.format(k=k, questions=self.questions, text=text), speaker=speaker)
        reply = await self.talk.generate("auxiliary", f"interview {k}", trainable=False)
        self.said += [f"Question: {text}", f"Reply: {reply}"]

    async def written(self, wanted: tuple[str, str], k: int) -> list[str]:
        """Questions that the interviewer writes: one or more."""
        assert self.interviewer is not None
        what, reply = (part.format(k=k, questions=self.questions) for part in wanted)
        so_far = SO_FAR.format(said="\n\n".join(self.said)) if self.said else ""
        text = WRITE.format(what=what, manner=self.manner, question=self.asked, so_far=so_far, reply=reply)
        request = [user_message(text, self.talk.state.epoch)]
        name = f"interviewer {k}" if k else "interviewer"
        reply = await self.talk.ask_role("interviewer", self.interviewer, request, name)
        usable = usable_questions(reply, self.asked)
        if not usable:
            raise EndedEarly(f"The interviewer returned no usable question, but: {reply.strip()[:80]!r}")
        return usable


def usable_questions(reply: str, asked: str) -> list[str]:
    """The questions in an interviewer's reply: lines that end with a question mark, and are not the one to come.

    Numbers, bullets, quotes and commas round them are taken off. A list in JSON may stand on one line.
    """
    found = [LABEL.sub("", line.strip(MARKS)).strip(MARKS) for line in BETWEEN.split(reply)]
    main = {_core(line) for line in asked.split("\n")}
    return [line for line in found if line.endswith(("?", "？")) and _core(line) and _core(line) not in main]


def _core(line: str) -> str:
    return " ".join(re.findall(r"\w+", line.casefold()))


def _drawn(mode: Mode, asked: Question, n: int, others: Sequence[str], seed: int, epoch: int) -> list[str]:
    if mode == "fixed_sequence":
        return truth_seeking_questions()[:n]
    domains = [(others or [asked.domain])[k % max(len(others), 1)] for k in range(n)]
    pools = {
        domain: iter(other_questions(domain, asked, domains.count(domain), seed, asked.event, epoch))
        for domain in dict.fromkeys(domains)
    }
    drawn = [item for domain in domains for item in islice(pools[domain], 1)]
    return ["\n\n".join(p for p in (str(q.input), evidence(q.metadata_as(Question).evidence)) if p) for q in drawn]


def _names(argument: str, given: object) -> list[str]:
    listed = given.split(",") if isinstance(given, str) else given
    if not isinstance(listed, list | tuple) or not all(isinstance(name, str) for name in listed):
        raise BadInput(f"bootstrap_interview: {argument}={given!r} cannot be used; give names with commas between them")
    return [name.strip() for name in listed if name.strip()]
