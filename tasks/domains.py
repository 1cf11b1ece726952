"""Domains whose questions are rows of a file: bundled ones, those of a real source, or your own.

    inspect eval truthgym/forecasting --model reference/bayesian
    inspect eval truthgym/forecasting --solver truthgym/chain_of_thought -S steps=4 --model openai/gpt-5.4-mini
    inspect eval truthgym/forecasting -T source=forecastbench -T known_after=2026-06-01 -T n=200 --model ...
    inspect eval truthgym/questions -T source=mine.jsonl --model reference/bayesian

All tasks here take the same arguments (docs/domains.md describes them):

    source: "bundled", the name of a real source, or the path of a .jsonl, .csv or .parquet file in the shape of the
        bundled one, such as a snapshot from `truthgym fetch`.
    split: "train", "validation", "test" or "all": a hash of the question's event decides.
    known_after: Keeps questions whose truth became public after this day, such as 2026-06-01. Those without a day are
        left out.
    n: Number of questions, drawn with the seed. None: all.
    seed: Seed of the draw.
    sha256: SHA-256 that the file given as `source` must have.
    paradigms: Names of scorers, in a list or with commas, or {name: {argument: value}}.
    system_prompt: "none", "prior_conforming", "critical_thinking", or the text of a system message. It stays with any
        solver.
"""

from datetime import date

from inspect_ai import Task

from truthgym.datasets import questions as own_questions
from truthgym.datasets.domains import DOMAINS
from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading.selection import Questions
from truthgym.tasks.domain_task import Prompt, ScorerNames, asks, domain_task, task


@task
@asks(DOMAINS["forecasting"])
def forecasting(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask for the probability of resolved real-world events. Default scorers: brier and martingale.

    `source` may be "forecastbench" or "halawi". `part` chooses bundled questions: "series" (the default), on public
    series that resolved from March to August 2026; "events", which models may remember; or "all".
    """
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="5-A")


@task
@asks(DOMAINS["research"])
def research(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask which of two answers to a science question is right. Default scorers: brier and martingale.

    `known_after` leaves out all bundled questions: they have no day.
    """
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="3-A")


@task
@asks(DOMAINS["openreview"])
def openreview(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask whether a paper was accepted at its venue. Default scorers: brier and martingale.

    `source` may be "reviewbench"; the bundled papers are for smoke tests, since models remember them. `known_after`
    compares with the day of the decision.
    """
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="3-A")


@task
@asks(DOMAINS["cmv_binary"])
def cmv_binary(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask whether an exchange changed the view of a post's author. Default scorers: brier and martingale.

    `source` may be "webis", "webis_threads" or "winning_args"; the bundled exchanges are synthetic. `known_after`
    compares with the day on which the exchange ended.
    """
    return domain_task(questions, paradigms, ["brier", "martingale"], system_prompt, version="4-A")


@task
@asks(DOMAINS["cmv_freeform"])
def cmv_freeform(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask whether contested views are right; no truth is known. Default scorer: martingale.

    `source` may be "webis" or "winning_args". `known_after` compares with the day of the post.
    """
    return domain_task(questions, paradigms, ["martingale"], system_prompt, version="4-A")


@task
@asks(DOMAINS["conceptual"])
def conceptual(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask conceptual and philosophical questions. Default scorer: martingale."""
    return domain_task(questions, paradigms, ["martingale"], system_prompt, version="4-A")


@task
@asks(DOMAINS["intellectual"])
def intellectual(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Ask for a demonstration of thought. Default scorer: qualitative, which needs the model role `judge`."""
    return domain_task(questions, paradigms, ["qualitative"], system_prompt, version="3-A")


@task
@asks(DOMAINS["wildchat"])
def wildchat(questions: Questions, paradigms: ScorerNames | None = None, system_prompt: Prompt = None) -> Task:
    """Answer messages of people to an assistant. Default scorer: qualitative, which needs the role `judge`.

    `source` may be "wildchat_1m" (3.4 GB, downloaded once: give `n`), whose options are those of `truthgym fetch
    wildchat`. `language` keeps messages in one or several languages, such as French; `min_words` and `max_words` limit
    the words of a message, `min_turns` and `max_turns` the person's messages in the conversation.
    """
    return domain_task(questions, paradigms, ["qualitative"], system_prompt, version="3-A")


@task
@validate_call
def questions(
    source: str,
    split: str = "all",
    known_after: date | str | None = None,
    n: int | None = None,
    seed: int = 0,
    sha256: str | None = None,
    paradigms: ScorerNames | None = None,
    system_prompt: Prompt = None,
) -> Task:
    """Ask the questions of your own file. Default scorers: brier and martingale.

    `source` is the path of a .jsonl, .csv or .parquet file whose rows have an `id`, a `question` and an `outcome`
    (docs/own_questions.md).
    """
    asked = own_questions.questions(source, split, known_after, n, seed, sha256)
    return domain_task(asked, paradigms, ["brier", "martingale"], system_prompt, version="2-A")
