"""Sycophancy: a domain's questions, each asked neutrally and after a user or a third party has stated an opinion.

The opinion is the same sentence for both speakers and has no evidence: a reader who gives weight to any opinion moves
equally for both, a sycophant moves more for the user.
"""

import random
from collections.abc import Sequence
from typing import Literal, get_args

from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser

from truthgym.datasets.domains import Domain, domain_questions
from truthgym.datasets.errors import BadInput, names_in, one_of
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.opinions import EXCHANGES, IN_PASSING, OPINIONS, Exchange, Opinion
from truthgym.datasets.question import Question

Group = Literal["user", "third", "memory", "pushback"]
Order = Literal["before", "after"]

NEUTRAL = "neutral"
ARMS = {"user": ("user_yes", "user_no"), "third": ("third_yes", "third_no"), "memory": ("memory_yes", "memory_no")}
"""Arms of each group. `pushback` has none: the scorer pushes back after the neutral arm's answer."""
ORDERS: tuple[Order, ...] = ("before", "after")
"""Whether the opinion comes before the question or after it."""


class ArmQuestion(Question, frozen=True):
    """A question in one arm: the metadata of a sample, together with the domain's own fields."""

    question: str
    """The question's id in its domain. Arms of one question share it."""
    arm: str
    """"neutral", or the speaker and the side: "user_yes", "third_no", "memory_yes", ..."""
    wording: str
    """Name of the opinion's wording: the same in all arms of a question, including the neutral one."""
    order: Order
    """Whether the opinion comes before the question or after it. In the memory arms it comes some turns earlier."""
    opinion: str | None = None
    """The opinion as stated, or None in the neutral arm."""


def sycophancy(
    domain: Domain = "forecasting",
    arms: str | Sequence[str] = ("user", "third"),
    n: int | None = None,
    seed: int = 0,
    split: str = "all",
) -> Questions:
    """Ask every question of a domain once in each arm. The arms of a question are adjacent.

    Wording (eight) and order (two) are balanced: any two consecutive questions of a block have both orders, eight have
    all wordings, sixteen all pairs, in an order that the seed draws. Both sides are stated for every question.

    Args:
        domain: A key of `DOMAINS`, or {key: {argument: value}}, whose arguments override those below.
        arms: Groups of arms besides the neutral one, as a list or separated by commas: user, third, memory, pushback
            (which adds no arm: the scorer pushes back).
        n: Number of questions, passed to the domain. None uses the domain's default.
        seed: Passed to the domain. It also decides which question gets which wording.
        split: Passed to the domain.

    Raises:
        BadInput: An unknown domain, group or argument, or questions without a proposition.
    """
    groups = arm_groups(arms)
    name, questions = domain_questions(domain, {"n": n, "seed": seed, "split": split})
    names = [NEUTRAL, *(arm for group in groups for arm in ARMS.get(group, ()))]
    size = len(OPINIONS) * len(ORDERS)
    samples = []
    for i, item in enumerate(questions):
        opinion, order = _design(seed, i // size)[i % size]
        samples += [_in_arm(item, arm, opinion, order, EXCHANGES[i % len(EXCHANGES)]) for arm in names]
    in_arms = Questions(samples, name=f"sycophancy on {name}")
    in_arms.dropped, in_arms.notice, in_arms.digest = questions.dropped, questions.notice, questions.digest
    return in_arms


def arm_groups(arms: object) -> list[Group]:
    """Parse the requested groups of arms, in the order of `Group`.

    Raises:
        BadInput: No group, or an unknown one.
    """
    known: tuple[Group, ...] = get_args(Group)
    requested = set(names_in(arms)) - {NEUTRAL}
    for name in sorted(requested):
        one_of("arms", name, known)
    if not requested:
        raise BadInput(f"arms={arms!r} names no arm besides the neutral one; name at least one of: {', '.join(known)}")
    return [name for name in known if name in requested]


def without_opinion(text: str, opinion: str | None) -> str:
    """The question as the neutral arm asks it."""
    if not opinion:
        return text
    return text.removeprefix(f"{opinion}\n\n").removesuffix(f"\n\n{opinion}")


def _design(seed: int, block: int) -> list[tuple[Opinion, Order]]:
    """Wording and order of sixteen questions: the second eight repeat the wordings of the first in the other order."""
    rng = random.Random(f"sycophancy/{seed}/{block}")
    wordings = rng.sample(OPINIONS, len(OPINIONS))
    orders = [order for _ in range(len(OPINIONS) // 2) for order in rng.sample(ORDERS, 2)]
    reversed_orders = [ORDERS[1 - ORDERS.index(order)] for order in orders]
    return [*zip(wordings, orders, strict=True), *zip(wordings, reversed_orders, strict=True)]


def _in_arm(item: Sample, arm: str, wording: Opinion, order: Order, about: Exchange) -> Sample:
    known = item.metadata_as(Question)
    if not known.proposition:
        raise BadInput(
            f"sycophancy: the question {item.id!r} has no proposition for an opinion to call true or false; use a "
            "domain with binary questions"
        )
    who, _, side = arm.partition("_")
    asked, opinion = str(item.input), None
    messages: str | list[ChatMessage] = asked
    if arm != NEUTRAL:
        opinion = wording.render("third" if who == "third" else "user", "yes" if side == "yes" else "no",
                                 known.proposition)  # fmt: skip
        messages = f"{opinion}\n\n{asked}" if order == "before" else f"{asked}\n\n{opinion}"
    if who == "memory":
        messages = [
            ChatMessageUser(content=f"{IN_PASSING}{opinion}\n\n{about.first}"),
            ChatMessageAssistant(content=about.reply),
            ChatMessageUser(content=about.second),
            ChatMessageAssistant(content=about.last),
            ChatMessageUser(content=asked),
        ]
    arm_fields = {"question": str(item.id), "arm": arm, "wording": wording.name, "order": order, "opinion": opinion}
    return Sample(
        id=f"{item.id}/{arm}", input=messages, target=item.target, metadata={**(item.metadata or {}), **arm_fields}
    )
