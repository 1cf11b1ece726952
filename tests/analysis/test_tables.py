import math
import shutil
from pathlib import Path

import pytest
from inspect_ai.log import EvalLog, read_eval_log

from tests.fixtures import score_of
from truthgym.analysis.tables.answers import answers
from truthgym.analysis.tables.beliefs import beliefs
from truthgym.analysis.tables.markdown import with_interval
from truthgym.datasets.errors import BadInput
from truthgym.scorers.statistics.interval import interval_text


def logs_in(mixed_logs: Path) -> list[EvalLog]:
    return [read_eval_log(str(path)) for path in mixed_logs.glob("*.eval")]


@pytest.mark.parametrize(
    ("lower", "upper", "text"),
    [
        (-0.0003, 0.087, "[-0.0003, 0.087]"),
        (-0.0245, 0.0003, "[-0.025, 0.0003]"),
        (-0.000004, 0.1, "[-4e-06, 0.100]"),
        (-0.0, 1e-15, "[0.000, 0.000]"),  # equal but for rounding errors
        (-0.2, -0.1, "[-0.200, -0.100]"),
    ],
)
def test_an_interval_shows_on_which_side_of_zero_it_ends(lower: float, upper: float, text: str) -> None:
    assert interval_text(lower, upper) == text
    assert with_interval(-0.0002, lower, upper) == f"0.000 {text}"


def test_answers_are_those_of_inspects_reader(mixed_logs: Path) -> None:
    frame = answers(mixed_logs)
    by_answer = {
        (row.eval_id, row.sample_id, row.epoch, row.scorer, row.key): row.value for row in frame.itertuples(index=False)
    }
    expected = {}
    for log in logs_in(mixed_logs):
        for sample in log.samples or []:
            for name, score in (sample.scores or {}).items():
                scorer = {"brier1": "brier read=token"}.get(name, name + " per=step" * (name == "martingale"))
                values = score.value if isinstance(score.value, dict) else {name: 1.0 if score.value == "C" else 0.0}
                for key, value in values.items():
                    expected[log.eval.eval_id, str(sample.id), sample.epoch, scorer, key] = value
    assert len(frame) == len(by_answer) == len(expected)
    assert by_answer == pytest.approx(expected, nan_ok=True)


def test_a_row_says_what_was_asked_and_why_there_is_no_number(mixed_logs: Path) -> None:
    frame = answers(mixed_logs, scorer="brier")
    assert set(frame["scorer"]) == {"brier", "brier read=token"}
    assert set(frame["setup"]) == {"urns, chain_of_thought steps=2"}
    assert set(frame["model"]) == {"reference/bayesian noise=0.1", "reference/bayesian min_confidence=0.25"}
    assert set(frame["target"]) == {"yes", "no"}
    assert set(frame["split"]) <= {"train", "validation", "test"}
    unread = frame["value"].isna()
    assert 0 < unread.sum() < len(frame)
    assert (frame["reason"] != "").equals(unread)
    foreign = answers(mixed_logs, scorer="match").iloc[0]
    assert (foreign["event"], foreign["split"], foreign["key"], foreign["value"]) == ("7", "", "match", 1.0)


def test_features_describe_what_the_model_wrote(mixed_logs: Path) -> None:
    frame = answers(mixed_logs, features=True)
    foreign = frame[frame["scorer"] == "match"].iloc[0]
    # "Perhaps 12.5 or 3, likely: right"
    assert tuple(foreign[["characters", "steps", "hedges", "numbers"]]) == (32, 0, 2, 2)
    assert foreign["stop_reason"] == "stop"
    assert math.isnan(foreign["confidence"])
    own = frame[(frame["key"] == "belief") & (frame["scorer"] == "brier")]
    assert set(own["steps"]) == {2}
    read = own.dropna(subset="value")
    assert list(read["confidence"]) == pytest.approx(list((read["value"] - 0.5).abs()))


def test_beliefs_have_the_exact_posterior_at_both_ends(mixed_logs: Path) -> None:
    frame = beliefs(mixed_logs)
    log = next(log for log in logs_in(mixed_logs) if "noise" in log.eval.model_args)
    sample = (log.samples or [])[3]
    rows = frame[
        (frame["eval_id"] == log.eval.eval_id) & (frame["sample_id"] == sample.id) & (frame["epoch"] == sample.epoch)
    ]
    details = score_of(sample, "martingale").metadata or {}
    assert list(rows["stage"]) == ["prior", "step 1", "step 2", "posterior"]
    assert list(rows["step"]) == [0, 1, 2, 3]
    assert list(rows["belief"]) == [belief["value"] for belief in details["beliefs"]]
    exact = sample.metadata["posterior"]
    assert list(rows["posterior"]) == pytest.approx([exact[0], math.nan, math.nan, exact[-1]], nan_ok=True)
    assert set(rows["outcome"]) == {1.0 if sample.target == "yes" else 0.0}
    unread = frame["belief"].isna()
    assert (frame["reason"] != "").equals(unread)
    assert unread.any()


def test_a_frame_is_the_readers_own_and_a_copied_log_counts_once(mixed_logs: Path, tmp_path: Path) -> None:
    frame = answers(mixed_logs)
    frame["value"] = 0.0
    frame.attrs["notes"].append("mine")
    again = answers(mixed_logs)
    assert not (again["value"] == 0).all()
    assert again.attrs == {"higher_is_better": {}, "notes": []}
    for path in mixed_logs.glob("*.eval"):
        shutil.copy(path, tmp_path / f"copy-{path.name}")
    assert len(answers([mixed_logs, tmp_path])) == len(again)
    with pytest.raises(BadInput, match="none of the 3 logs has a score of truthgym/length"):
        answers(mixed_logs, scorer="length")
    with pytest.raises(BadInput, match="none of the 1 logs has a score of truthgym/martingale"):
        beliefs(next(path for path in mixed_logs.glob("*.eval") if "plain" in path.name))
