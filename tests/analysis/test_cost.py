from pathlib import Path

import pytest

from tests.fixtures import write_rows
from truthgym.analysis.cost import chart, load, report
from truthgym.datasets.errors import BadInput
from truthgym.evallog.reader import LogReader

PRICE = {"input": 2, "output": 8, "input_cache_write": 2, "input_cache_read": 0.2}


def test_a_width_costs_its_square(urn_logs: Path, tmp_path: Path) -> None:
    prices = write_rows(tmp_path / "prices.json", {"reference/bayesian": PRICE})
    frame = load(urn_logs, scorer="brier", width="0.1", prices=prices)
    assert frame["tokens_for_width"].is_monotonic_increasing
    for row in frame.itertuples():
        header = LogReader(str(row.log)).header
        assert header.results
        figures = {name: metric.value for name, metric in header.results.scores[0].metrics.items()}
        width = (figures["brier_upper"] or 0) - (figures["brier_lower"] or 0)
        usage = header.stats.model_usage[header.eval.model]
        assert row.interval == pytest.approx(width)
        assert row.tokens_for_width == pytest.approx((usage.input_tokens + usage.output_tokens) * (width / 0.1) ** 2)
        dollars = (2 * usage.input_tokens + 8 * usage.output_tokens) / 1e6
        expected = dollars if header.eval.model == "reference/bayesian" else float("nan")
        assert row.money == pytest.approx(expected, nan_ok=True)
    assert frame.attrs["notes"][0] == (
        "Without a cost in money: reference/overreacting strength=1 noise=0.05 (the log records none, and no price of "
        "a model in it was given)."
    )
    page = report(frame, "x.svg")
    assert "an interval of width 0.1 would cost" in page
    assert "| dollars for the width |" in page
    layers = chart(frame).to_dict()["concat"][0]["layer"]
    assert "lower is better" in layers[1]["encoding"]["y"]["title"]


def test_what_has_few_questions_is_named_and_not_drawn(mixed_logs: Path) -> None:
    frame = load(mixed_logs, scorer="brier")
    assert frame["n"].max() == 6
    assert frame["tokens_for_width"].isna().all()
    note = next(
        note for note in frame.attrs["notes"] if note.startswith("Without a cost of the width, and not drawn: ")
    )
    assert "brier of reference/bayesian noise=0.1 in urns" in note
    assert note.endswith("(fewer than 30 questions).")
    with pytest.raises(BadInput, match="No two evals of one scorer have 30 questions"):
        chart(frame)


def test_what_cannot_be_used_is_refused(urn_logs: Path) -> None:
    assert "dollars" not in report(load(urn_logs))
    with pytest.raises(BadInput, match="width='0' is not a number above 0"):
        load(urn_logs, width="0")
    with pytest.raises(BadInput, match="none.yaml does not hold prices .*No such file"):
        load(urn_logs, prices="none.yaml")
