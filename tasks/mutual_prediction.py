"""Mutual prediction: do a model's answers help another model to predict answers?

    inspect eval truthgym/mutual_prediction -T answers=logs/ --model hf/smollm2:135m -M model_path=trained/smollm2
    inspect eval truthgym/mutual_prediction -T answers=logs/ -T predicted=random_non_evaluated \
      -T context_questions=evaluated_question --model reference/predictor

The evaluated model of this run is the predictor. Its questions are made from the answers in finished logs.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Any, Literal, cast

import numpy as np
from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model, get_model, model_roles
from inspect_ai.solver import Generate, Solver, TaskState, solver
from pydantic import Field

from truthgym.datasets.errors import BadInput, names_in, validate_call
from truthgym.datasets.inspect_private import in_eval
from truthgym.models.agents.policies import generator
from truthgym.models.agents.predictor import PRIORS, SIDES, request
from truthgym.models.predictor import MIN_MASS, Method, check_method, reply_logprobs
from truthgym.scorers.declaration import Figures
from truthgym.scorers.mutual_predictability import NAME, RESULTS, Scoring, mutual_predictability
from truthgym.scorers.mutual_prediction.answers import Answers, Form, Respondent, read_answers
from truthgym.scorers.mutual_prediction.trials import (
    Choice,
    ContextQuestions,
    Design,
    TargetQuestion,
    Trial,
    candidates,
    draw_trials,
)
from truthgym.solvers.local_model import generate
from truthgym.solvers.prepare import prepare
from truthgym.solvers.roles import required_model
from truthgym.solvers.trajectory import failure_reason, user_message
from truthgym.tasks.domain_task import notice, task, viewer

VERSION = "1-A"


@task
@validate_call
def mutual_prediction(
    answers: str | Sequence[str],
    form: Form = "short",
    predictor: Choice = "random_non_evaluated",
    predicted: Choice = "evaluated",
    target_question: TargetQuestion = "evaluated_question",
    context_questions: ContextQuestions = "k_random_non_evaluated",
    k_context: Annotated[int, Field(ge=1)] = 3,
    trials: Annotated[int, Field(ge=1)] = 3,
    scoring: Scoring = "uplift",
    behavior_examples: Annotated[int, Field(ge=0)] = 0,
    same_family: Literal["flag", "exclude"] = "flag",
    method: Method | None = None,
    n: Annotated[int, Field(ge=1)] | None = None,
    seed: int = 0,
    figures: Figures = "headline",
) -> Task:
    """Predict answers in finished logs, with and without other answers of the same model (`mutual_predictability`).

    The predictor is the role `predictor`, which can have several models, or else the evaluated model of this run. A
    sample is one question that one model (the evaluated one of the measure) answered.

    Args:
        answers: Logs (.eval, .json) or folders of them; several with commas. Of each model and setting the newest
            finished log counts.
        form: "short", the side of one half on which an answer is, "Yes" or "No"; "text", the whole answer.
        predictor: Which models predict: "random_non_evaluated", another model than the one that gave the answers
            shown; "evaluated", that model alone; "random_any". Never the model whose answer is predicted.
        predicted: Whose answer is predicted: "evaluated", the model's own; "random_non_evaluated", that of another
            model to the same question; "random_any".
        target_question: The question whose answer is predicted: "evaluated_question", that of the sample;
            "random_non_evaluated_question" or "random_any_question".
        context_questions: Which answers of the model are shown: "k_random_non_evaluated", those to `k_context` other
            questions; "evaluated_question", that to the sample's question, to predict another model's.
        k_context: Number of answers shown.
        trials: Trials of each sample, with different draws, which are averaged.
        scoring: "uplift"; "conditional_only", without a null; "judge_consistency", where the predictor rates how well
            the answer fits those shown.
        behavior_examples: Number of other answers of the predicted model that are shown in every arm.
        same_family: "flag" says how many trials predict a model of the same family, "exclude" makes none.
        method: How log-probabilities are found: "teacher_forced", "top_logprobs" or "elicited"; None is the first that
            the predictor can do, of the first two.
        n: Number of samples, drawn with the seed.
        seed: Seed of the draws.
        figures: "headline" writes at most ten metrics to the log, "all" every one, with the matrix of models.
    """
    places = names_in(answers)
    read = read_answers(places, form)
    design = Design(
        predicted=predicted,
        target_question=target_question,
        context_questions=context_questions,
        k_context=k_context,
        trials=trials,
        behavior_examples=behavior_examples,
        same_family=same_family,
        seed=seed,
    )
    skipped = +read.left_out  # without zeros
    samples = _samples(read, design, scoring, n, skipped)
    if not samples:
        raise BadInput(_nothing(read, skipped, ",".join(places)))
    if in_eval():  # a predictor that cannot do it is one clear error, before any sample
        for model in predictors():
            if scoring != "judge_consistency" and check_method(model, method) == "top_logprobs" and form == "text":
                raise BadInput(
                    f"form=text: {model} gives the likeliest first tokens of its reply alone (method=top_logprobs), "
                    "which is no probability of a text; use a predictor that can do teacher_forced (docs/logprobs.md), "
                    "or -T form=short, or -T method=elicited"
                )
        if not any(_able(trial, sample, predictor) for sample in samples for trial in _trials(sample)):
            names = ", ".join(map(str, predictors()))
            raise BadInput(
                f"predictor={predictor}: {names} may predict none of these answers, since it gave them or must be the "
                "model that did; name another with --model, or use -T predictor=random_any"
            )
    if skipped:
        parts = ", ".join(f"{number} {reason}" for reason, number in skipped.items())
        notice(f"mutual_prediction leaves out: {parts}.")
    for pair, share in read.copies.items() if predicted != "evaluated" else ():
        names = " and ".join(sorted(pair))
        notice(f"{names} gave the same reply to {share:.0%} of their questions: neither predicts the other.")
    if predicted != "evaluated" and (commands := read.missing()):
        notice("Answers that only some of the models gave. These commands make them:\n" + "\n".join(commands))
    return Task(
        dataset=MemoryDataset(samples, name="mutual_prediction"),
        setup=prepare(None, []),
        solver=predict_answers(form, predictor, scoring, method, seed),
        scorer=mutual_predictability(figures=figures),
        version=VERSION,
        metadata={"left_out": dict(skipped)} if skipped else None,
        viewer=viewer([NAME]),
    )


@solver
def predict_answers(
    form: Form = "short",
    predictor: Choice = "random_non_evaluated",
    scoring: Scoring = "uplift",
    method: Method | None = None,
    seed: int = 0,
) -> Solver:
    """Predict the answers of a sample of `truthgym/mutual_prediction`: of each trial in three arms.

    Model calls: three for each trial (`scoring=conditional_only`: one; `judge_consistency`: two). With
    method="elicited" and answers in short form two for each of them.

    Args:
        form: As in the task, like the other arguments.
        predictor: Which models predict.
        scoring: What is asked.
        method: How log-probabilities are found.
        seed: Seed of the draw among several predictors.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        PRIORS.set(state.metadata.get("priors", {}))
        facts = {"source_model": state.metadata["source_model"]}
        results = []
        for number, drawn in enumerate(state.metadata["trials"]):
            trial = Trial.model_validate(drawn)
            able = [model for model in predictors() if _may_predict(model, trial, facts["source_model"], predictor)]
            result: dict[str, Any] = {"predicted": trial.predicted, "same_family": trial.same_family}
            result["event"] = trial.event
            if able:
                rng = generator("predictor", seed, str(state.sample_id), number)
                model = able[rng.integers(len(able))]
                result |= {"predictor": str(model)} | await _predict(model, trial, form, scoring, method, state.epoch)
            else:
                result |= {"reason": "The predictor may not predict this answer."}
            results.append(result)
        state.store.set(RESULTS, results)
        return state

    return solve


def predictors() -> list[Model]:
    """The models in the role `predictor`, or else the evaluated model."""
    bound = model_roles().get("predictor")
    if bound is None:
        return [get_model()]
    required_model("predictor")
    return list(bound) if isinstance(bound, list) else [bound]


def _may_predict(model: Model, trial: Trial, source: str, predictor: Choice) -> bool:
    evaluated = str(model) == source
    if str(model) == trial.predicted_model:
        return False
    return {"evaluated": evaluated, "random_non_evaluated": not evaluated, "random_any": True}[predictor]


async def _predict(
    model: Model, trial: Trial, form: Form, scoring: Scoring, method: Method | None, epoch: int
) -> dict[str, Any]:
    """The log-probability of the answer in each arm, with its tokens, or the rating."""
    arms = {
        "uplift": ("context", "null", "base"),
        "conditional_only": ("context",),
        "judge_consistency": ("context", "null"),
    }
    result: dict[str, Any] = {}
    tokens: dict[str, list[tuple[str, float]]] = {}
    for arm in arms[scoring]:
        shown = trial.shown(cast(Any, arm))
        if scoring == "judge_consistency":
            text = request(shown, trial.question, trial.respondent, form == "short", trial.answer)
            rated = await _rating(model, text, epoch)
            if isinstance(rated, str):
                return {"reason": rated}
            result |= {arm: rated, "method": "rating", "count": 1}
            continue
        messages = [user_message(request(shown, trial.question, trial.respondent, form == "short"), epoch)]
        replies = SIDES if form == "short" else [trial.answer]
        scored = dict(zip(replies, await reply_logprobs(model, messages, replies, method), strict=True))
        unread = next((score.reason for score in scored.values() if score.reason), None)
        if unread:
            return {"reason": unread}
        chosen = scored[trial.answer]
        total = chosen.total
        if form == "short":  # among the two, so that knowing the form of an answer is no knowledge of it
            mass = float(np.logaddexp.reduce([score.total for score in scored.values()]))
            if chosen.method == "top_logprobs" and mass < np.log(MIN_MASS):
                return {"reason": f"Yes and No have a probability of only {np.exp(mass):.2g} together."}
            total -= mass
        result |= {arm: total, "method": chosen.method, "count": chosen.count}
        tokens[arm] = list(chosen.tokens) if form == "text" else [(trial.answer, total)]
    if tokens:
        result["tokens"] = {arm: [list(pair) for pair in pairs] for arm, pairs in tokens.items()}
    return result


async def _rating(model: Model, text: str, epoch: int) -> float | str:
    output = await generate(model, [user_message(text, epoch)])
    numbers = re.findall(r"\d+", output.completion)
    if failure := failure_reason(output):
        return failure
    if len(numbers) != 1 or int(numbers[0]) > 100:
        return f"No whole number from 0 to 100 in the reply {output.completion[:80]!r}."
    return int(numbers[0]) / 100


def _samples(answers: Answers, design: Design, scoring: Scoring, n: int | None, skipped: Counter[str]) -> list[Sample]:
    pairs = [(source, name) for source in answers.respondents for name in source.uuids]
    order = range(len(pairs)) if n is None else generator("mutual prediction", design.seed, "n").permutation(len(pairs))
    samples: dict[int, Sample] = {}
    for index in order:
        if len(samples) == n:
            break
        source, name = pairs[index]
        reason = source.unread.get(name, "")
        if reason and not _could_be_asked(answers, source, name, design):
            skipped[reason] += 1
            continue
        drawn = [] if reason else draw_trials(answers, source, name, design, skipped)
        if not drawn and not reason:
            continue
        text, question = answers.questions[name]
        metadata: dict[str, Any] = {
            "source": source.name,
            "source_model": source.model,
            "log": source.asked_in[name].path,
            "eval_id": source.asked_in[name].header.eval.eval_id,
            "uuids": source.uuids[name],
            "question": name,
            "domain": question.domain,
            "event": question.event,
            "split": question.split,
            "scoring": scoring,
            "trials": [trial.model_dump() for trial in drawn],
        }
        metadata |= {"unread": reason} if reason else {}
        if priors := _priors(answers, drawn):
            metadata["priors"] = priors
        identity = f"{source.name} | {name}"
        samples[int(index)] = Sample(
            id=identity, input=text, target=drawn[0].answer if drawn else "", metadata=metadata
        )
    return [samples[index] for index in sorted(samples)]


def _priors(answers: Answers, trials: Sequence[Trial]) -> dict[str, float]:
    """The exact probability before any evidence of each generated question in trials, which `reference/` knows."""
    texts = {
        text for trial in trials for text, _ in [(trial.question, ""), *trial.context, *trial.null, *trial.behavior]
    }
    priors = {text: question.posterior[0] for text, question in answers.questions.values() if question.posterior}
    return {text: priors[text] for text in sorted(texts & priors.keys())}


def _could_be_asked(answers: Answers, source: Respondent, name: str, design: Design) -> bool:
    """Whether an answer that can be read would have had a trial: a model that abstains gains nothing by it."""
    return (
        design.predicted != "random_non_evaluated"
        or design.target_question != "evaluated_question"
        or bool(candidates(answers, source, name, design))
    )


def _trials(sample: Sample) -> list[Trial]:
    return [Trial.model_validate(trial) for trial in (sample.metadata or {})["trials"]]


def _able(trial: Trial, sample: Sample, predictor: Choice) -> bool:
    source = (sample.metadata or {})["source_model"]
    return any(_may_predict(model, trial, source, predictor) for model in predictors())


def _nothing(answers: Answers, skipped: Counter[str], places: str) -> str:
    reasons = ", ".join(f"{number} {reason}" for reason, number in skipped.items())
    names = ", ".join(respondent.name for respondent in answers.respondents)
    first = answers.respondents[0]
    remedy = f"run {first.command(first.logs[0], 'ANOTHER')}, or ask about more questions"
    return f"answers={places} (answers of {names}): no prediction can be made ({reasons}); {remedy}"
