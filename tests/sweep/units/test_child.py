from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import EvalLog, read_eval_log
from inspect_ai.util import EarlyStop, EarlyStoppingSummary

from tests.fixtures import Run
from truthgym.datasets.errors import BadInput
from truthgym.evallog.discovery import find_logs
from truthgym.sweep.units.child import completed_samples, how_it_ended, merge_shards
from truthgym.tasks import urns


def test_a_listed_log_is_named_by_its_path(run: Run) -> None:
    log = run(urns(n=2, paradigms="brier"), epochs=1)
    path = str(Path(log.location))
    log.location = Path(path).as_uri()
    assert how_it_ended(log) == {"log": path, "status": "success", "completed": 2, "error": ""}

    assert log.results
    log.results.completed_samples = 1
    stop = EarlyStop(id=2, epoch=1)
    log.results.early_stopping = EarlyStoppingSummary(manager="mine", early_stops=[stop], metadata={})
    assert completed_samples(log) == 2, "a sample that was stopped early need not run again"
    log.invalidated = True
    assert completed_samples(log) is None


def logs(run: Run) -> tuple[EvalLog, list[EvalLog]]:
    """A whole run, and one of each half of its questions."""
    whole = run(urns(n=6), epochs=2)
    ids = whole.eval.dataset.sample_ids or []
    return whole, [run(urns(n=6), epochs=2, max_connections=2, sample_id=half) for half in (ids[:2], ids[2:])]


def test_a_merged_log_is_that_of_one_process(run: Run, tmp_path: Path) -> None:
    whole, parts = logs(run)
    questions: list[Any] = list(whole.eval.dataset.sample_ids or [])
    out = tmp_path / "merged" / "all.eval"
    out.parent.mkdir()

    merge_shards([part.location for part in parts], str(out), questions, {})

    merged, expected = read_eval_log(str(out)), read_eval_log(whole.location)
    assert [(sample.id, sample.epoch) for sample in merged.samples or []] == [
        (sample.id, sample.epoch) for sample in expected.samples or []
    ]
    for sample, whole_sample in zip(merged.samples or [], expected.samples or [], strict=True):
        assert [message.text for message in sample.messages] == [message.text for message in whole_sample.messages]
        assert sample.scores == whole_sample.scores
    assert merged.results is not None
    assert expected.results is not None
    for score, due in zip(merged.results.scores, expected.results.scores, strict=True):
        assert {name: metric.value for name, metric in score.metrics.items()} == pytest.approx(
            {name: metric.value for name, metric in due.metrics.items()}, abs=1e-12, nan_ok=True
        )
    assert merged.eval.dataset.samples == 6
    assert merged.results.completed_samples == 12
    assert merged.eval.config == expected.eval.config
    assert merged.plan == expected.plan
    assert merged.eval.dataset == expected.eval.dataset
    assert merged.eval.created == min(part.eval.created for part in parts)
    usage = [part.stats.model_usage["reference/bayesian"].total_tokens for part in parts]
    assert merged.stats.model_usage["reference/bayesian"].total_tokens == sum(usage)
    files, _ = find_logs([out.parent])
    assert [file.path for file in files] == [str(out)]

    with pytest.raises(BadInput, match="lack 8 of 12"):
        merge_shards([parts[0].location], str(tmp_path / "some.eval"), questions, {})
    with pytest.raises(BadInput, match="4 too many"):
        merge_shards([parts[0].location, whole.location], str(tmp_path / "more.eval"), questions, {})
    assert not list(tmp_path.glob("*.part"))
