"""The simulated judge, asked with the real prompts: what it reads, and the noise and look-ahead planted in it."""

from collections.abc import Sequence
from typing import Any

import pytest
from inspect_ai.dataset import Sample

from tests.models.simulated import ask, case_of, instruction, probe, prompt, proposition, question_text
from truthgym.datasets.domains import bundled
from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Question, ask_about
from truthgym.datasets.urns import UrnQuestion, urns
from truthgym.models.agents.belief_reports import noisy, percent
from truthgym.models.agents.judge import noisy_percent, report_belief
from truthgym.models.agents.policies import Parameters, believe, uniform
from truthgym.models.agents.reading import STATED
from truthgym.scorers.beliefs.elicitation import JOINT, READ, VIEW, WHAT, WHOSE, WHOSE_JOINT
from truthgym.scorers.beliefs.parsing import read_belief, read_beliefs
from truthgym.scorers.beliefs.transcript import Turn, as_json, as_text
from truthgym.solvers.trajectory import user_message

URNS = list(urns(n=3))
FORECASTS = bundled("forecasting")[:3]
ITEMS = [*URNS, *FORECASTS]


def reading(item: Sample, text: str, stage: str = "", standpoint: str = "policy") -> str:
    """The request to read one text about an item, which agents then know."""
    ask_about(item)
    return READ.format(
        what=WHAT[stage], question=item.input, text=text, whose=WHOSE[standpoint], proposition=proposition(item)
    )


def joint(item: Sample, turns: Sequence[Turn], standpoint: str = "policy") -> str:
    """The request to read a trajectory about an item, which agents then know, in one go."""
    ask_about(item)
    return JOINT.format(
        question=item.input,
        steps=as_json(turns),
        whose=WHOSE_JOINT[standpoint],
        proposition=proposition(item),
        number=len(turns) + 1,
        turns=len(turns),
    )


def turns(item: Sample, *wrote: str) -> list[Turn]:
    """A trajectory in which everything is told at first."""
    return [
        Turn(question_text(item, instruction(item)) if i == 0 else "", text, 2 * i + 1, True)
        for i, text in enumerate(wrote)
    ]


def states(belief: str) -> str:
    return f"Some of this speaks for it. {STATED[1].format(percent=belief)}"


def reply(text: str, epoch: int = 1, **parameters: Any) -> str:
    return ask(user_message(text, epoch), model="judge", **parameters).completion


def number(text: str, **parameters: Any) -> float:
    belief = read_belief(reply(text, **parameters))
    assert belief is not None
    return belief


def numbers(text: str, count: int, **parameters: Any) -> list[float]:
    beliefs = read_beliefs(reply(text, **parameters), count)
    assert beliefs is not None
    return beliefs


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.id))
def test_it_reads_the_belief_in_an_agents_first_view(item: Sample) -> None:
    view = ask(probe(item, fresh=True, request=VIEW)).completion
    assert number(reading(item, view, "prior")) == percent(prior_of(item))


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.id))
def test_it_reads_the_last_number_of_an_agents_answer(item: Sample) -> None:
    answer = ask(prompt(item), model="overreacting", noise=0.1).completion
    believed = read_belief(answer)
    assert believed is not None
    assert number(reading(item, as_text(turns(item, answer)))) == percent(believed)
    assert number(reading(item, as_text(turns(item, answer, states("3.00"))))) == 0.03


def test_it_reads_a_text_without_what_was_told() -> None:
    for item in ITEMS:
        assert number(reading(item, states("61.80"))) == 0.62
        assert number(reading(item, f"{states('61.80')}\n\n\\finalBeliefProb{{0.2500}}")) == 0.25


def test_its_own_belief_is_a_bayesians_who_has_read_the_same() -> None:
    for item in URNS:
        posterior = item.metadata_as(UrnQuestion).posterior
        text = as_text(turns(item, states("3.00")))
        assert number(reading(item, text)) == 0.03
        assert number(reading(item, text, standpoint="judge")) == percent(posterior[-1])
        assert number(reading(item, states("3.00"), "prior", "judge")) == posterior[0]
        half = as_text([Turn("\n".join([str(item.input), *item.metadata_as(Question).evidence[:2]]), "3%.", 1, True)])
        assert number(reading(item, half, standpoint="judge")) == percent(posterior[2])
    for item in FORECASTS:
        planted = Parameters(skill=2, seed=4)
        for thoughts in (1, 3):
            text = as_text(turns(item, *[states("3.00")] * thoughts))
            belief = number(reading(item, text, standpoint="judge"), epoch=2, skill=2, seed=4)
            assert belief == percent(believe("bayesian", case_of(item, thoughts, 2, planted), 2, 0, planted))


def prior_of(item: Sample) -> float:
    if item in URNS:
        return item.metadata_as(UrnQuestion).posterior[0]
    return believe("bayesian", case_of(item), 1, 0, Parameters())


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: str(item.id))
@pytest.mark.parametrize("leak", [0, 0.1, 0.35, 1])
def test_a_list_begins_with_the_share_of_the_update_that_leaks(item: Sample, leak: float) -> None:
    beliefs = numbers(joint(item, turns(item, states("20.00"), states("91.00"))), 3, leak=leak)
    first = round(100 * (prior_of(item) + leak * (0.91 - prior_of(item)))) / 100
    assert beliefs == [first, 0.2, 0.91]


def test_in_a_list_a_step_without_a_number_keeps_the_belief() -> None:
    item = URNS[0]
    prior = prior_of(item)
    wrote = ["Hm.", f"{states('20.00')} \\finalBeliefProb{{0.30}}", "What is \\finalBeliefProb{p}?", states("80.00")]
    beliefs = numbers(joint(item, turns(item, *wrote)), 5)
    assert beliefs == [prior, prior, 0.3, 0.3, 0.8]
    assert numbers(joint(item, turns(item, "Hm.", "Hm.")), 3, leak=0.5) == [prior] * 3
    # what a step was told is not what it wrote
    told_a_number = Turn(f"{item.input} Others say: {states('5.00')}", states("70.00"), 1, True)
    then = Turn(states("6.00"), "Hm, “quoted” {and} \\ escaped.\n\nStill.", 3, True)
    assert numbers(joint(item, [told_a_number, then]), 3) == [prior, 0.7, 0.7]


def test_a_text_that_states_no_belief_leaves_it_with_its_own() -> None:
    for item in URNS:
        text = as_text(turns(item, "Who knows."))
        assert number(reading(item, text)) == percent(item.metadata_as(UrnQuestion).posterior[-1])
        assert number(reading(item, "Who knows.", "prior")) == item.metadata_as(UrnQuestion).posterior[0]


def test_its_noise_is_that_of_the_pure_functions() -> None:
    planted = Parameters(noise=0.1, seed=5)
    for item in ITEMS:
        key = str(item.input if item in URNS else item.id)
        pieces = len(item.metadata_as(Question).evidence) if item in URNS else 2
        text = reading(item, as_text(turns(item, states("40.00"), states("70.00"))))
        belief = number(text, epoch=3, noise=0.1, seed=5)
        assert belief == noisy_percent(0.7, planted, key, 3, "text", 2, pieces)
        assert belief == percent(noisy(0.7, 0.1, uniform(5, "judge", key, 3, "text", 2, pieces)))
    for item in URNS:
        view = number(reading(item, states("40.00"), "prior"), epoch=3, noise=0.1, seed=5)
        assert view == noisy_percent(0.4, planted, str(item.input), 3, "first view", 1, 0)


def test_one_error_runs_through_a_list() -> None:
    item = URNS[0]
    place = uniform(5, "judge", item.input, 3, "steps")
    wrote = [states("40.00"), states("70.00")]
    beliefs = numbers(joint(item, turns(item, *wrote)), 3, epoch=3, noise=0.1, seed=5, leak=0.2)
    first = prior_of(item) + 0.2 * (0.7 - prior_of(item))
    assert beliefs == [float(percent(noisy(belief, 0.1, place))) for belief in (first, 0.4, 0.7)]


def test_the_judge_names_itself_as_simulated() -> None:
    output = ask(user_message(reading(URNS[0], states("40.00")), 1), model="judge")
    assert output.completion == "(Simulated judge agent, not a language model.)\n\n40%"
    assert output.model == "reference/judge (simulated)"


def test_it_refuses_questions_that_no_agent_knows() -> None:
    for text in ("Will pigs fly by 2030? 40%.", joint(URNS[0], []).replace(str(URNS[0].input), "Will pigs fly?")):
        with pytest.raises(BadInput, match="does not find it in this conversation"):
            report_belief(text, 1, Parameters())
