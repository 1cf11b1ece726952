"""Arms: one question, one opinion, two speakers; and everything else held still."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import pytest
from inspect_ai.dataset import Sample

from truthgym.datasets import domains
from truthgym.datasets.errors import BadInput
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.question import Question, question, sample, without_opinion
from truthgym.datasets.sycophancy import (
    ARGUMENTS,
    ARMS_BY_GROUP,
    DOUBTS,
    EXCHANGES,
    IN_PASSING,
    OPINIONS,
    ORDERS,
    SIDES,
    ArmQuestion,
    Group,
    Side,
    Speaker,
    arm_groups,
    opinions_in,
    sycophancy,
)
from truthgym.datasets.urns import UrnQuestion, urns

ARMS = [arm for group in ARMS_BY_GROUP.values() for arm in group]


def by_question(items: Sequence[Sample]) -> dict[str, dict[str, Sample]]:
    found: dict[str, dict[str, Sample]] = {}
    for item in items:
        known = item.metadata_as(ArmQuestion)
        found.setdefault(known.question, {})[known.arm] = item
    return found


def said(item: Sample) -> str:
    return item.input if isinstance(item.input, str) else "\n".join(message.text for message in item.input)


def test_arms_of_a_question_are_adjacent_and_keep_its_metadata() -> None:
    made = list(sycophancy("urns", arms="user,third,memory", n=3))
    plain = list(urns(n=3))
    assert [item.id for item in made] == [f"{q.id}/{arm}" for q in plain for arm in ["neutral", *ARMS]]
    for item in made:
        known, of_the_domain = item.metadata_as(ArmQuestion), item.metadata_as(UrnQuestion)
        original = next(q for q in plain if q.id == known.question)
        assert of_the_domain == original.metadata_as(UrnQuestion)
        assert item.target == original.target


def test_a_neutral_arm_is_the_question_alone() -> None:
    arms = by_question(sycophancy(n=5))
    for item in forecasting(n=5):
        neutral = arms[str(item.id)]["neutral"]
        assert neutral.input == item.input
        assert neutral.metadata_as(ArmQuestion).opinion is None


def test_between_arms_only_the_speaker_or_the_side_differs() -> None:
    for arms in by_question(sycophancy("urns", arms=["user", "third", "memory"], n=40)).values():
        known = {arm: item.metadata_as(ArmQuestion) for arm, item in arms.items()}
        assert len({(k.wording, k.order) for k in known.values()}) == 1
        wording = next(o for o in OPINIONS if o.name == known["neutral"].wording)
        proposition = known["neutral"].proposition or ""
        for arm in ARMS:
            text, opinion = said(arms[arm]), known[arm].opinion or ""
            assert text.count(opinion) == 1
            assert text.replace(opinion, "") == said(arms[arm.replace("yes", "no")]).replace(
                known[arm.replace("yes", "no")].opinion or "", ""
            )
            who = wording.third if arm.startswith("third") else wording.user
            side = "true" if arm.endswith("yes") else "false"
            assert opinion == wording.text.format(who=who, side=side, proposition=proposition)
            assert [opinion_found[1:] for opinion_found in opinions_in(text, proposition)] == [
                ("third" if arm.startswith("third") else "user", arm.rpartition("_")[2], arm.startswith("memory"))
            ]


def test_the_order_is_kept_and_an_opinion_can_be_taken_out_again() -> None:
    for arms in by_question(sycophancy("urns", n=16)).values():
        asked = str(arms["neutral"].input)
        for arm in (*ARMS_BY_GROUP["user"], *ARMS_BY_GROUP["third"]):
            known = arms[arm].metadata_as(ArmQuestion)
            text = str(arms[arm].input)
            assert text.startswith(asked) is (known.order == "after")
            assert text.endswith(asked) is (known.order == "before")
            assert without_opinion(text, known.opinion) == asked
        assert without_opinion(asked, None) == asked


def test_wording_and_order_are_balanced_and_drawn_by_the_seed() -> None:
    def cells(seed: int) -> list[tuple[str, str]]:
        # The same questions whatever the seed of the design.
        made = by_question(sycophancy({"urns": {"seed": 0}}, n=48, seed=seed))
        return [
            ((known := arms["neutral"].metadata_as(ArmQuestion)).wording, str(known.order)) for arms in made.values()
        ]

    every = {(opinion.name, order) for opinion in OPINIONS for order in ORDERS}
    for block in range(3):
        assert set(cells(0)[16 * block : 16 * block + 16]) == every
    assert all({order for _, order in cells(0)[i : i + 2]} == set(ORDERS) for i in range(0, 48, 2))
    assert all(len({name for name, _ in cells(0)[i : i + 8]}) == 8 for i in range(0, 48, 8))
    assert cells(0) == cells(0) != cells(1)
    assert Counter(cells(1)) == Counter(cells(0))
    assert cells(0)[:16] != cells(0)[16:32]


def test_memory_arms_have_small_talk_before_the_question() -> None:
    arms = by_question(sycophancy("urns", arms="memory", n=1))
    (held,) = arms.values()
    talk = held["memory_yes"].input
    assert not isinstance(talk, str)
    assert [message.role for message in talk] == ["user", "assistant", "user", "assistant", "user"]
    assert talk[-1].text == held["neutral"].input
    assert talk[0].text.startswith(IN_PASSING)


def test_wordings_are_at_least_six_and_hold_no_reason() -> None:
    assert len({opinion.name for opinion in OPINIONS}) == len(OPINIONS) >= 6
    told = {o.render(who, side, "It rains.") for o in OPINIONS for who in get_args(Speaker) for side in get_args(Side)}
    assert len(told) == 4 * len(OPINIONS)
    for text in told:
        assert not any(word in text for word in ("because", "since", "expert", "sure", "certain", "evidence", "doctor"))
    script = [line for e in EXCHANGES for line in (e.first, e.reply, e.second, e.last)]
    assert len(set(script)) == 4 * len(EXCHANGES)
    assert all("{opinion}" in text for text in ARGUMENTS)
    assert not any(doubt in text for doubt in DOUBTS for text in (*script, *ARGUMENTS, *told))


def test_no_opinion_is_found_on_another_proposition() -> None:
    text = OPINIONS[0].render("user", "yes", "It rains.")
    assert opinions_in(text, "It snows.") == []
    assert opinions_in(f"{text} {text}", "It rains.") == [
        (len(text), "user", "yes", False),
        (2 * len(text) + 1, "user", "yes", False),
    ]


def test_a_domain_takes_arguments_of_its_own_and_the_common_ones() -> None:
    made = by_question(sycophancy({"urns": {"draws": 6}}, n=10, split="test"))
    assert len(made) == 10
    for arms in made.values():
        known = arms["neutral"].metadata_as(Question)
        assert (len(known.evidence), known.split) == (6, "test")
    assert len(by_question(sycophancy({"urns": None}, n=2))) == 2
    assert len(by_question(sycophancy("urns"))) == 300
    assert len(by_question(sycophancy(n=7))) == 7


def test_groups_of_arms_are_read_in_any_form_and_order() -> None:
    for given in ("third, user", ["third", "user"], ("user", "third", "neutral")):
        assert arm_groups(given) == ["user", "third"]
    assert arm_groups("pushback") == ["pushback"]
    assert len(sycophancy("urns", arms="pushback", n=2)) == 2
    assert arm_groups(get_args(Group)) == list(get_args(Group))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"arms": "usr"}, "Unknown arms 'usr'; did you mean 'user'"),
        ({"arms": ""}, "arms='' names no arm"),
        ({"domain": "urnes"}, "Unknown domain 'urnes'; did you mean 'urns'"),
        ({"domain": {"urns": {}, "forecasting": {}}}, "give one name"),
        ({"domain": {"urns": 4}}, "domain: urns: 4 cannot be used"),
        ({"domain": "questions"}, "domain=questions needs a file; write -T domain=FILE.jsonl"),
        ({"domain": "nowhere.csv"}, "There is no file nowhere.csv"),
        ({"domain": {"urns": {"drawn": 6}}}, "Unknown argument of urns 'drawn'; did you mean 'draws'"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInput) as refused:
        sycophancy(**given)
    assert said in str(refused.value).replace("\\", "")


def test_a_question_without_a_proposition_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def loader(split: str = "all", seed: int = 0) -> list[Sample]:
        return [sample("q", "Why?", None, question(Question, "q", domain="free", form="free", event="e"), "q")]

    monkeypatch.setitem(domains.LOADERS, "free", loader)
    with pytest.raises(BadInput, match="'q' has no proposition"):
        sycophancy("free")


FOREIGN = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageSystem, ChatMessageUser


@task
def letters(n=4):
    rivers = ["Rhine", "Po", "Nile"]
    facts = {"topic": "rivers", "event": 3, "split": "dev"}
    return Task([Sample(f"Which is river {i}?", target="ABC"[i % 3], choices=rivers, metadata=facts) for i in range(n)])


@task
def yesno():
    system = ChatMessageSystem(content="Be brief.")
    return Task([Sample([system, ChatMessageUser(content="Is 2 even?")], target="Yes", id="two")])


@task
def free():
    return Task([Sample("Name a river.", target="Rhine")])
"""


def test_a_task_in_a_file_is_a_domain(tmp_path: Path) -> None:
    file = tmp_path / "foreign.py"
    file.write_text(FOREIGN)
    items = sycophancy(f"{file}@letters", "user")
    assert len(items) == 12
    assert (items.name, len(sycophancy({f"{file}@letters": {"n": 2}}, "user"))) == (
        f"sycophancy on {file}@letters", 6)  # fmt: skip
    for number in range(4):
        neutral, yes, no = items[3 * number : 3 * number + 3]
        known = neutral.metadata_as(ArmQuestion)
        letter = str(known.proposition).removeprefix("This is a right answer to the question: ")[0]
        assert neutral.input == f"Which is river {number}?\n\nA) Rhine\nB) Po\nC) Nile"
        assert neutral.target == ("yes" if letter == "ABC"[number % 3] else "no")
        assert (known.domain, known.event, known.base_rate) == (f"{file}@letters", str(number + 1), 1 / 3)
        assert {k: (neutral.metadata or {})[k] for k in ("topic", "task_event", "task_split")} == {
            "topic": "rivers", "task_event": 3, "task_split": "dev"}  # fmt: skip
        assert [SIDES["yes"] in str(yes.input), SIDES["no"] in str(no.input)] == [True, True]
    (_, said, _) = sycophancy(f"{file}@yesno", "memory")
    assert [message.role for message in said.input if not isinstance(message, str)] == [
        "system", "user", "assistant", "user", "assistant", "user"]  # fmt: skip
    assert (said.id, said.target) == ("two/memory_yes", "yes")
    with pytest.raises(BadInput, match="'1' has no proposition"):
        sycophancy(f"{file}@free", "user")
    with pytest.raises(BadInput, match="no task 'leters', but letters, yesno, free"):
        sycophancy(f"{file}@leters", "user")
