"""Sycophancy: a domain's questions, each asked neutrally and after a user or a third party has stated an opinion.

The opinion is the same sentence whoever states it, and holds no evidence: a reader who gives weight to any opinion
moves alike for both speakers, a sycophant moves more for the user.
"""

import random
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any, Literal, get_args

from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser

from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.errors import BadInput, one_of
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.opinions import EXCHANGES, IN_PASSING, OPINIONS, Exchange, Opinion
from truthgym.datasets.question import Question

Group = Literal["user", "third", "memory", "pushback"]
Order = Literal["before", "after"]
Domain = str | Mapping[str, Mapping[str, Any] | None]

NEUTRAL = "neutral"
ARMS = {"user": ("user_yes", "user_no"), "third": ("third_yes", "third_no"), "memory": ("memory_yes", "memory_no")}
"""Arms of each group. `pushback` has none: it is asked after the neutral arm's answer, by the scorer."""
ORDERS: tuple[Order, ...] = ("before", "after")
"""Where the opinion stands: before the question, or after it."""


class ArmQuestion(Question, frozen=True):
    """A question in one of its arms, as a sample's metadata hold it. The domain's own fields stand beside these."""

    question: str
    """The question's id in its domain. Arms of one question share it."""
    arm: str
    """"neutral", or who says what: "user_yes", "third_no", "memory_yes", ..."""
    wording: str
    """Name of the opinion's wording: the same in all arms of a question, also where none is stated."""
    order: Order
    """Whether the opinion stands before the question or after it. In the memory arms it is some turns before."""
    opinion: str | None = None
    """The opinion as it is stated, or None in the neutral arm."""


def sycophancy(
    domain: Domain = "forecasting",
    arms: str | Sequence[str] = ("user", "third"),
    n: int | None = None,
    seed: int = 0,
    split: str = "all",
) -> Questions:
    """Ask every question of a domain once in each arm. The arms of a question stand next to each other.

    Wording (eight) and order (two) are balanced: two questions in a row have both orders, eight all wordings, sixteen
    all pairs of them, as the seed draws them. Both sides are stated of every question.

    Args:
        domain: A key of `DOMAINS`, or {key: {argument: value}}, whose arguments go before those below.
        arms: Groups of arms besides the neutral one, in a list or with commas: user, third, memory, pushback (which
            adds no arm: the scorer asks it).
        n: Questions, passed on to the domain. None takes as many as the domain gives unasked.
        seed: Passed on to the domain; it also decides which question gets which wording.
        split: Passed on to the domain.

    Raises:
        BadInput: An unknown domain, group or argument, or questions without a proposition.
    """
    groups = arm_groups(arms)
    name, questions = _questions(domain, {"n": n, "seed": seed, "split": split})
    chosen = [NEUTRAL, *(arm for group in groups for arm in ARMS.get(group, ()))]
    size = len(OPINIONS) * len(ORDERS)
    made = []
    for i, item in enumerate(questions):
        opinion, order = _design(seed, i // size)[i % size]
        made += [_in_arm(item, arm, opinion, order, EXCHANGES[i % len(EXCHANGES)]) for arm in chosen]
    arms_of = Questions(made, name=f"sycophancy on {name}")
    arms_of.dropped, arms_of.notice, arms_of.digest = questions.dropped, questions.notice, questions.digest
    return arms_of


def arm_groups(given: object) -> list[Group]:
    """Read the groups of arms that are asked for, in the order of `Group`.

    Raises:
        BadInput: None, or an unknown one.
    """
    named = given.split(",") if isinstance(given, str) else given if isinstance(given, list | tuple) else [given]
    known: tuple[Group, ...] = get_args(Group)
    wanted = {str(name).strip() for name in named} - {NEUTRAL}
    for name in sorted(wanted):
        one_of("arms", name, known)
    if not wanted:
        raise BadInput(f"arms={given!r} names no arm besides the neutral one; name at least one of: {', '.join(known)}")
    return [name for name in known if name in wanted]


def without_opinion(text: str, opinion: str | None) -> str:
    """A question as it is asked in the neutral arm."""
    if not opinion:
        return text
    return text.removeprefix(f"{opinion}\n\n").removesuffix(f"\n\n{opinion}")


def _design(seed: int, block: int) -> list[tuple[Opinion, Order]]:
    """Wording and order of sixteen questions in a row: the second eight have the wordings of the first turned round."""
    drawn = random.Random(f"sycophancy/{seed}/{block}")
    wordings = drawn.sample(OPINIONS, len(OPINIONS))
    orders = [order for _ in range(len(OPINIONS) // 2) for order in drawn.sample(ORDERS, 2)]
    turned = [ORDERS[1 - ORDERS.index(order)] for order in orders]
    return [*zip(wordings, orders, strict=True), *zip(wordings, turned, strict=True)]


def _questions(domain: object, usual: Mapping[str, Any]) -> tuple[str, Questions]:
    named = {domain: {}} if isinstance(domain, str) else domain
    if not isinstance(named, Mapping) or len(named) != 1:
        raise BadInput(f"domain={domain!r} cannot be used; give one name, or {{name: {{argument: value}}}}")
    (name, arguments), *_ = named.items()
    one_of("domain", name, list(DOMAINS))
    if arguments is not None and not isinstance(arguments, Mapping):
        raise BadInput(f"domain: {name}: {arguments!r} cannot be used; give its arguments as {{argument: value}}")
    known = list(signature(DOMAINS[name]).parameters)
    for argument in arguments or {}:
        one_of(f"argument of {name}", str(argument), known)
    # A number that is not given is the domain's own default, which for a generator is not None.
    given = {key: value for key, value in usual.items() if value is not None} | dict(arguments or {})
    return name, DOMAINS[name](**given)


def _in_arm(item: Sample, arm: str, wording: Opinion, order: Order, about: Exchange) -> Sample:
    known = item.metadata_as(Question)
    if not known.proposition:
        raise BadInput(
            f"sycophancy: the question {item.id!r} has no proposition that an opinion could call true or false; use a "
            "domain with binary questions"
        )
    who, _, side = arm.partition("_")
    asked, opinion = str(item.input), None
    given: str | list[ChatMessage] = asked
    if arm != NEUTRAL:
        opinion = wording.said("third" if who == "third" else "user", "yes" if side == "yes" else "no",
                               known.proposition)  # fmt: skip
        given = f"{opinion}\n\n{asked}" if order == "before" else f"{asked}\n\n{opinion}"
    if who == "memory":
        given = [
            ChatMessageUser(content=f"{IN_PASSING}{opinion}\n\n{about.first}"),
            ChatMessageAssistant(content=about.reply),
            ChatMessageUser(content=about.second),
            ChatMessageAssistant(content=about.last),
            ChatMessageUser(content=asked),
        ]
    of_the_arm = {"question": str(item.id), "arm": arm, "wording": wording.name, "order": order, "opinion": opinion}
    return Sample(
        id=f"{item.id}/{arm}", input=given, target=item.target, metadata={**(item.metadata or {}), **of_the_arm}
    )
