"""Chains of facts: right hops, the planted error of each hop, what context ablation does, and agents that cheat."""

import math
import random
from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ChatMessage, ChatMessageTool, ChatMessageUser, get_model
from scipy.stats import beta

from tests.fixtures import Run, metrics, number, samples
from tests.scorers.scores import scored
from truthgym.datasets.agent_worlds import Call, world
from truthgym.datasets.errors import BadInput
from truthgym.datasets.fact_chains import ChainQuestion, fact_chains
from truthgym.models.agents.policies import Parameters
from truthgym.models.agents.tool_users import followed
from truthgym.scorers.agent_answer import process_score
from truthgym.scorers.fact_chain import hops_right, summarise
from truthgym.solvers.agent_tools.turns import REMOVED, last_results
from truthgym.tasks.agents import fact_chains as task


def retrievals(*names: str) -> list[Call]:
    return [Call("retrieve", {"number": 1}, (name,)) for name in names]


def figures(
    *walks: tuple[int, int], epochs: int = 1, answers: Sequence[float] = (), unread: int = 0
) -> dict[str, float]:
    """Of the right hops and all hops of each chain. The answers of the first `unread` chains could not be read."""
    scores = []
    for i, (right, hops) in enumerate(walks):
        chain = math.nan if i < unread else float(right == hops)
        value = {"chain": chain, "hops": right, "answer": answers[i] if answers else chain}
        facts = {"hops": hops, "right": right, "failed": int(i >= unread and right < hops)}
        scores += [scored(f"q{i}", value, epoch, **facts) for epoch in range(epochs)]
    return summarise(scores)


def test_the_hops_that_are_right() -> None:
    chain = fact_chains(n=1, hops=3)[0].metadata_as(ChainQuestion)
    a, b, c = chain.needs
    place = world(chain.world, chain.size)
    others = [name for name in place.kinds if name not in (a, b, c, chain.answer)]
    leads = next(
        entry for entry in others if c in [place.facts[entry, relation].object for relation in place.relations(entry)]
    )
    others.remove(leads)
    assert hops_right(chain, retrievals(a, b, c), chain.answer) == 3
    assert hops_right(chain, retrievals(a, others[0], b, b, c), chain.answer.upper()) == 3
    assert hops_right(chain, retrievals(a, b, others[0], c), chain.answer) == 3
    assert hops_right(chain, retrievals(a, b, leads, c), chain.answer) == 1
    assert hops_right(chain, retrievals(a, b, c), others[0]) == 2
    assert hops_right(chain, retrievals(a, b, c), None) == 2
    assert hops_right(chain, retrievals(a, b, others[0]), chain.answer) == 1
    assert hops_right(chain, retrievals(a, c, b), chain.answer) == 1
    assert hops_right(chain, retrievals(b, c), chain.answer) == 0
    assert hops_right(chain, [Call("search", {"query": a}, (a, b, c))], chain.answer) == 0
    assert hops_right(chain, [], chain.answer) == 0


def test_figures_by_hand() -> None:
    """10 hops tried, 2 wrong: the 2nd of four and the 6th of eight. Up to hop 4 it is 1 of 8, after it 1 of 2."""
    result = figures((1, 4), (5, 8), (2, 2))
    assert result["hop_error"] == pytest.approx(0.2)
    assert result["chain"] == pytest.approx(1 / 3)
    assert result["chain_if_constant"] == pytest.approx((0.8**4 + 0.8**8 + 0.8**2) / 3)
    assert result["hop_error_early"] == 1 / 8
    assert result["hop_error_late"] == 1 / 2
    assert result["hop_error_change"] == 3 / 8
    assert result["hop_error_first"] == 0
    # by chain, wrong less .2 times tried is 1 - .4, 1 - 1.2 and -.4: with G/(G - 1) = 1.5, over 10 tried
    variance = 1.5 * (0.6**2 + 0.2**2 + 0.4**2) / 10**2
    hops = 1 + 0.2 * 0.8 / variance * (2.262157 / 4.302653) ** 2  # Student's t of 9 and of 2 degrees of freedom
    ends = beta.ppf(0.025, 0.2 * hops, 0.8 * hops + 1), beta.ppf(0.975, 0.2 * hops + 1, 0.8 * hops)
    assert [result[f"hop_error_{end}"] for end in ("lower", "upper")] == pytest.approx(ends, abs=1e-5)
    # late less early: the second chain moves it by (1 - .5 * 2) / 2 - (0 - 4 / 8) / 8, the others by -(...) / 8
    moves = [-(1 - 2 / 8) / 8, (1 - 1) / 2 + 4 / 64, 2 / 64]
    assert result["hop_error_change_stderr"] == pytest.approx(math.sqrt(1.5 * sum(move**2 for move in moves)))
    assert result["chain_02_hops"] == 1


def test_chains_without_an_error_do_not_show_that_the_error_never_changes() -> None:
    result = figures(*[(8, 8)] * 70)
    assert result["hop_error_change"] == 0
    assert result["hop_error_change_lower"] == pytest.approx(-(1 - 0.025 ** (1 / 70)))
    assert result["hop_error_change_upper"] == pytest.approx(1 - 0.025 ** (1 / 70))


def test_epochs_of_a_chain_are_no_further_chains() -> None:
    """Three chains, each walked 20 times with one outcome: as much as is known from one walk of each."""
    once, many = (figures((1, 8), (5, 8), (8, 8), epochs=epochs) for epochs in (1, 20))
    for name in ("hop_error", "hop_error_change_stderr"):
        assert many[name] == pytest.approx(once[name]), name
    assert many["hop_error_upper"] - many["hop_error_lower"] >= once["hop_error_upper"] - once["hop_error_lower"]


def test_an_unread_answer_counts_its_right_hops_alone() -> None:
    result = figures((3, 8), (2, 2), unread=1)
    assert result["hop_error"] == 0
    assert result["hop_error_imputed"] == pytest.approx(1 / 6)  # the fourth hop of the first, of 4 + 2
    assert result["share_scored"] == 0.5
    assert result["chain"] == 1
    assert result["chain_imputed"] == 0.5


@pytest.fixture(scope="module")
def chains() -> list[ChainQuestion]:
    return [item.metadata_as(ChainQuestion) for item in fact_chains(n=100, hops=(2, 4, 8, 16))]


@pytest.mark.parametrize("slip", [0.05, 0.2])
def test_the_planted_error_of_a_hop_is_found(chains: list[ChainQuestion], slip: float) -> None:
    """And the share of right chains of k hops is (1 - slip)^k, while right answers are more: paths meet again."""
    parameters, walks, answers = Parameters(slip=slip), [], []
    for rep, chain in product(range(6), chains):
        place, path = world(chain.world, chain.size), [chain.needs[0]]
        for i, relation in enumerate(chain.relations, start=1):
            path.append(followed(place, path[-1], relation, (chain.event, rep, i), parameters) or "")
        walks.append((hops_right(chain, retrievals(*path[:-1]), path[-1]), len(chain.needs)))
        answers.append(float(path[-1] == chain.answer))
    result = figures(*walks, answers=answers)
    assert result["hop_error_lower"] < slip < result["hop_error_upper"]
    assert result["hop_error_upper"] - result["hop_error_lower"] < 0.06
    for hops in (2, 4, 8, 16):
        expected = (1 - slip) ** hops
        assert result[f"chain_{hops:02d}_hops"] == pytest.approx(expected, abs=3 * math.sqrt(expected / 150)), hops
    assert abs(result["hop_error_change"]) < 3 * result["hop_error_change_stderr"]
    assert result["answer"] > result["chain"]


def test_chains_that_differ_are_flagged_and_the_first_hop_counts_each_once() -> None:
    draw, flagged, first, pooled = np.random.default_rng(0), {True: 0, False: 0}, [], []
    for _ in range(40):
        for differ in flagged:
            slips = draw.choice([0.02, 0.3] if differ else [0.16], 140)
            right = np.minimum(draw.geometric(slips) - 1, 8)
            result = figures(*((int(hops), 8) for hops in right))
            flagged[differ] += "flag_chains_differ" in result
            if differ:
                first.append(result["hop_error_first"])
                pooled.append(result["hop_error"])
    assert np.mean(first) == pytest.approx(0.16, abs=0.015)
    assert np.mean(pooled) < 0.12
    assert flagged[False] <= 4
    assert flagged[True] >= 20


@pytest.mark.parametrize("failed", [0, 1, 2, 70])
def test_the_interval_of_few_or_only_failed_chains_has_a_width(failed: int) -> None:
    result = figures(*((3 - (i < failed), 3) for i in range(70)))
    assert result["hop_error"] == pytest.approx(failed / 210)
    assert result["hop_error_upper"] - result["hop_error"] > 0.012
    exact = beta.ppf(0.975, failed + 1, 210 - failed)
    assert failed in (0, 70) or result["hop_error_upper"] == pytest.approx(exact, rel=0.03)


@pytest.mark.parametrize(("hops", "share"), [(2, 0.5), (4, 1 / 24), (8, 0.0)])
def test_who_reads_all_records_has_few_right_hops(chains: list[ChainQuestion], hops: int, share: float) -> None:
    """In the order of their numbers, which is none: the chain is right by chance, and the calls are over the budget."""
    right = []
    for chain in (entry for entry in chains if len(entry.needs) == hops):
        numbers = world(chain.world, chain.size).numbers
        calls = retrievals(*sorted(numbers, key=numbers.__getitem__))
        right.append(hops_right(chain, calls, chain.answer) == hops)
        assert process_score(chain, calls, 2 * hops) == 0
    assert np.mean(right) == (pytest.approx(share, abs=0.1) if share else 0)


def test_an_error_that_grows_along_the_chain_shows() -> None:
    draw = random.Random(0)
    right = [next((i for i in range(16) if draw.random() < (0.02 if i < 4 else 0.15)), 16) for _ in range(200)]
    result = figures(*((hops, 16) for hops in right))
    assert result["hop_error_change"] > 4 * result["hop_error_change_stderr"]
    assert result["hop_error_change"] == pytest.approx(0.13, abs=0.04)


@pytest.mark.parametrize(("agent", "chain", "error"), [("oracle", 1, 0), ("no_tool", 0, 1), ("refusing", 0, 1)])
def test_agents_whose_score_is_known(run: Run, agent: str, chain: float, error: float) -> None:
    log = run(task(n=4, hops=[2, 5]), f"reference/{agent}")
    result, answers = metrics(log, 0), metrics(log, 1)
    assert (result["chain"], result["hop_error"], result["share_scored"]) == (chain, error, 1)
    assert (answers["answer"], answers["process"]) == (chain, chain)


def test_a_walker_is_scored_by_where_it_went(run: Run) -> None:
    wrong = 0
    for sample in samples(run(task(n=4, hops=[2, 5]), get_model("reference/walker", slip=0.25))):
        chain = ChainQuestion.model_validate(sample.metadata)
        place, at, right = world(chain.world, chain.size), chain.needs[0], 0
        for i, (relation, truth) in enumerate(zip(chain.relations, [*chain.needs[1:], chain.answer], strict=True)):
            at = followed(place, at, relation, (chain.event, 1, i + 1), Parameters(slip=0.25)) or ""
            if at != truth:
                break
            right += 1
        assert number(sample, "fact_chain", "hops") == right
        wrong += right < len(chain.needs)
    assert 0 < wrong < 4


def test_only_the_last_results_are_shown() -> None:
    messages: list[ChatMessage] = [ChatMessageUser(content="q")]
    messages += [ChatMessageTool(content=str(i), function="search", tool_call_id=str(i)) for i in range(3)]
    assert [last_result.text for last_result in last_results(messages, 1)] == ["q", REMOVED, REMOVED, "2"]
    assert [entry.text for entry in last_results(messages, 0)] == ["q", REMOVED, REMOVED, REMOVED]
    assert last_results(messages, 9) == messages
    assert [message.text for message in messages] == ["q", "0", "1", "2"]


def test_who_carries_its_place_needs_one_result_and_who_rereads_needs_all(run: Run) -> None:
    walker = run(task(n=1, hops=4, context=1), "reference/walker")
    assert metrics(walker, 0)["chain"] == 1
    rereads = run(task(n=1, hops=4, context=1), "reference/oracle", message_limit=20)
    assert np.isnan(metrics(rereads, 0)["chain"])
    assert metrics(run(task(n=1, hops=4, context=0), "reference/walker"), 0)["chain"] == 0


@pytest.mark.parametrize("context", [-1, "all"])
def test_a_context_that_is_none_is_refused(context: Any) -> None:
    with pytest.raises(BadInput, match="context=.* cannot be used; give a whole number of results"):
        task(context=context)
