"""Generated worlds: questions whose exact posterior is known after every piece of evidence, and `audio`.

    inspect eval truthgym/urns --model reference/bayesian
    inspect eval truthgym/disclosure -T known=1 -T shown=2 --solver truthgym/chain_of_thought --model ...
    inspect eval truthgym/almanac -T kind=outbreak -T ahead=1 --model reference/naive
    inspect eval truthgym/audio -T control=loudness --model openai/gpt-audio

All tasks here take:

    n: Number of questions, all of the split. A longer set begins with the shorter one.
    seed: Another seed gives other questions.
    split: "train", "validation", "test" or "all". Every question is its own event, but for pairs of `disclosure`.
    paradigms: Names of scorers, in a list or with commas, or {name: {argument: value}}.
    system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. It stays with any
        solver.
"""

from inspect_ai import Task

from truthgym.datasets import audio as clips
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.loading.selection import Questions
from truthgym.tasks.domain_task import Prompt, ScorerNames, asks, domain_task, task

DEFAULT = ["brier", "martingale"]


@task
@asks(DOMAINS["urns"])
def urns(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask which of two causes produced the observations. Default scorers: brier and martingale."""
    return domain_task(questions, paradigms, DEFAULT, system_prompt, version="3-A")


@task
@asks(DOMAINS["testimony"])
def testimony(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask whether an event happened that few people saw and many reports repeat. Defaults: brier and martingale."""
    return domain_task(questions, paradigms, DEFAULT, system_prompt, version="2-A")


@task
@asks(DOMAINS["disclosure"])
def disclosure(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask what results say that somebody chose to show by a rule. Default scorers: brier and martingale."""
    return domain_task(questions, paradigms, DEFAULT, system_prompt, version="2-A")


@task
@asks(DOMAINS["interventions"])
def interventions(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask what a device does if a part is set, is seen, or had been set. Default scorers: brier and martingale."""
    return domain_task(questions, paradigms, DEFAULT, system_prompt, version="2-A")


@task
@asks(DOMAINS["almanac"])
def almanac(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask whether a small simulated world will pass a threshold on a day. Default scorers: brier and martingale."""
    return domain_task(questions, paradigms, DEFAULT, system_prompt, version="2-A")


@task
@asks(DOMAINS["cruxes"])
def cruxes(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask whether an exchange makes an author give up a view. Default scorers: brier and martingale."""
    return domain_task(questions, paradigms, DEFAULT, system_prompt, version="2-A")


@task
@asks(clips.audio)
def audio(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask which of two clips has less of a fault. Default scorer: brier. Needs a model that hears."""
    return domain_task(questions, paradigms, ["brier"], system_prompt, version="2-A")
