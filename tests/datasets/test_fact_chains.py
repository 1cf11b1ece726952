from typing import Any

import pytest

from truthgym.datasets.agent_worlds import world
from truthgym.datasets.errors import BadInput
from truthgym.datasets.fact_chains import HOPS, ChainQuestion, fact_chains


def test_each_hop_follows_from_the_record_before_it() -> None:
    for item in fact_chains(n=21):
        known = item.metadata_as(ChainQuestion)
        place = world(known.world, known.size)
        at = known.needs[0]
        for relation, following in zip(known.relations, [*known.needs[1:], known.answer], strict=True):
            assert following in place.records[at]
            at = place.facts[at, relation].object
            assert at == following
        assert len({*known.needs, known.answer}) == len(known.needs) + 1


def test_the_question_names_the_start_alone() -> None:
    for item in fact_chains(n=7):
        known = item.metadata_as(ChainQuestion)
        named = [name for name in world(known.world, known.size).kinds if name in str(item.input)]
        assert named == [known.needs[0]]
        assert item.target == ""


def test_lengths_take_turns_and_a_longer_set_begins_with_the_shorter() -> None:
    chains = [item.metadata_as(ChainQuestion) for item in fact_chains(n=14)]
    assert [len(chain.relations) for chain in chains] == [*HOPS, *HOPS]
    assert [item.id for item in fact_chains(n=3)] == [item.id for item in fact_chains(n=14)][:3]
    assert {chain.split for chain in chains} == {"test"}
    assert len({chain.answer for chain in chains}) > 10
    assert fact_chains(n=1, seed=1)[0].input != fact_chains(n=1)[0].input


BAD_HOPS: list[Any] = [0, 17, "2,x", [], "1.5"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        *[({"hops": hops}, "give whole numbers from 1 to 16") for hops in BAD_HOPS],
        ({"n": 0}, "n=0 cannot be used"),
        ({"split": "tset"}, "'test'"),
    ],
)
def test_bad_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        fact_chains(**arguments)
