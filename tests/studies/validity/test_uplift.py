"""The study of world uplift, on few questions. The page has the figures of many."""

from collections.abc import Callable

import numpy as np
import pytest

from studies.validity import uplift as study
from truthgym.datasets.domains import GENERATED
from truthgym.datasets.evidence import OUTCOMES
from truthgym.datasets.question import ask_about
from truthgym.models.agents.forecaster import observation_logprobs
from truthgym.models.agents.policies import Floats
from truthgym.scorers.forecasts.forecasting import PLACEBOS, messages

N = 40
FACTS = ("log_odds", "log_odds_with", "outcome")


@pytest.fixture(scope="module")
def questions() -> list[study.Case]:
    return study.cases("testimony", N)


@pytest.mark.parametrize("writer", study.WRITERS)
def test_uplift_is_what_is_known_in_advance(writer: str, questions: list[study.Case]) -> None:
    found = study.uplifts(writer, questions, "exact")
    assert found["raw"] == pytest.approx(found["planted"], abs=1e-9)
    assert found["text"] == pytest.approx(found["raw"], abs=1e-9)
    truth, error = study.planted(writer, questions), found["raw"].std() / np.sqrt(N)
    assert abs(found["raw"].mean() - truth) < 4 * error + 1e-9


def test_what_is_planted_is_information(questions: list[study.Case]) -> None:
    pairs = [(question.exact[-1], question.prior) for question in questions]
    divergence = [p * np.log(p / b) + (1 - p) * np.log((1 - p) / (1 - b)) for p, b in pairs]
    assert study.planted("quotes all evidence", questions) == pytest.approx(np.mean(divergence), rel=1e-3)
    planted = {writer: study.planted(writer, questions) for writer in study.WRITERS}
    assert planted["liar"] < 0 == planted["empty"] < planted["half of the evidence"] < planted["exact"]
    assert max(planted["naive"], planted["overconfident"]) < planted["exact"] < planted["copied observation"]


def test_placebos_remove_the_faults_that_they_are_for(questions: list[study.Case]) -> None:
    for writer in ("exact", "empty", "keywords"):
        exact = study.uplifts(writer, questions, "exact", contrast=False)["raw"]
        unfamiliar, lexical = (
            study.uplifts(writer, questions, name, contrast=False) for name in ("unfamiliar", "lexical")
        )
        assert unfamiliar["raw"] - exact == pytest.approx(0.5, abs=1e-9)
        assert unfamiliar["text"] == pytest.approx(exact, abs=1e-9)
        assert (lexical["raw"] > exact + 0.2).all()
        assert lexical["shuffled"] == pytest.approx(exact, abs=1e-9)
        assert (lexical["net"] <= exact + 1e-9).all()
    words = study.uplifts("keywords", questions, "lexical", contrast=False)
    assert words["text"].mean() > 0.3, "other text is no remedy"


@pytest.mark.parametrize("writer", ["exact", "empty", "keywords"])
def test_words_say_nothing_of_which_outcome_it_was(writer: str, questions: list[study.Case]) -> None:
    exact, lexical = (study.uplifts(writer, questions, name)["raw"] for name in ("exact", "lexical"))
    assert lexical == pytest.approx(exact, abs=1e-9)


@pytest.mark.parametrize("world", sorted(set(GENERATED) - {"testimony"}))
def test_every_generated_world_has_the_uplift_that_is_known(world: str) -> None:
    few = study.cases(world, 6)
    for writer in ("quotes all evidence", "half of the evidence", "naive", "liar"):
        found = study.uplifts(writer, few, "exact")
        assert found["raw"] == pytest.approx(found["planted"], abs=1e-9)
    assert study.planted("exact", few) > 0.01


def test_an_error_in_reading_has_the_planted_size(questions: list[study.Case]) -> None:
    """Log-odds of a stated belief differ from those that are read by a normal error, which no text can know."""
    exact, noisy = (study.uplifts("exact", questions, name)["raw"] for name in ("exact", "noisy 1"))
    assert not np.allclose(exact, noisy)
    prior = np.array([one.prior for one in questions])
    read = study.uplifts("empty", questions, "noisy 1")
    yes = np.array([one.item.target == "yes" for one in questions])
    base = np.where(yes, prior, 1 - prior)
    logs = []
    for question in questions:
        ask_about(question.item)
        context = messages("vanilla", str(question.item.input), study._task(question), None)
        sides = (str(question.item.target), "no" if question.item.target == "yes" else "yes")
        words = [observation_logprobs(context, OUTCOMES[side], study.FORECASTERS["noisy 1"]) for side in sides]
        logs.append([sum(logprob for _, logprob in each) for each in words])
    assert np.exp(logs).sum(axis=1) == pytest.approx(1), "both outcomes share the error"
    errors = np.diff(logs)[:, 0] * -1 - np.log(base / (1 - base))
    assert 0.6 < errors.std() < 1.5
    assert abs(errors.mean()) < 0.6
    assert abs(read["text"].mean()) > read["net"].mean(), "the greatest of three errors"


def test_bundled_evidence_has_known_uplift() -> None:
    uplifts, events, truth = study.bundled_uplifts("calibrated", "exact")
    assert len(events) == 78
    assert 0.05 < truth < 0.3
    assert abs(uplifts["raw"].mean() - truth) < 4 * uplifts["raw"].std() / np.sqrt(78)
    assert study.bundled_uplifts("copied observation", "exact")[0]["raw"] == pytest.approx(np.log(0.999 / 0.5))


def uplift(values: Floats) -> dict[str, Floats]:
    """The same net uplift over each placebo, of observations without an opposite."""
    unknown = np.full(values.size, np.nan)
    return {"net": values, **dict.fromkeys(PLACEBOS, values), **dict.fromkeys(FACTS, unknown)}


def test_runs_cover_the_truth_and_find_it() -> None:
    values = np.random.default_rng(0).normal(0.2, 0.5, 2000)
    found = study.replicate(uplift(values), float(values.mean()), 100, 400)
    assert 0.92 <= found["coverage"] <= 0.98
    power = found["above 0"]  # of z = 0.2 / 0.05 = 4 at 1.98: 0.978
    assert 0.94 <= power <= 1.0
    assert found["below 0"] == 0
    both = study.replicate(uplift(values) | {"shuffled": values + 0.1, "question": values - 0.4}, 0.2, 100, 50)
    assert (both["verdict helps"], both["verdict misleads"]) == (0, 0), "the placebos disagree"
    assert study.replicate(uplift(values), 0.2, 100, 50)["verdict helps"] > 0.9
    nothing = study.replicate(uplift(np.zeros(50)), 0.0, 10, 5)
    assert [nothing[key] for key in ("coverage", "above 0", "below 0", "mde")] == [1, 0, 0, 0]


def test_the_page_names_every_writer(written: Callable[..., str]) -> None:
    page = written(study.STUDY, n=6, runs=3)
    for writer in study.WRITERS:
        assert page.count(f"\n| {writer} |") >= (1 if writer in study.BRIEF else 4), writer


def test_edited_copies_are_counted_and_texts_that_saw_nothing_are_not() -> None:
    counted = study.copies().set_index("text")["counted as copied"]
    edited = ["the observation", "every third word replaced", "a word added after every second", "its halves exchanged"]
    assert counted[edited].min() > 0.9
    assert counted["the question, and a guess"] < 0.03
