"""A local model is evaluated by naming its folder. This one has random weights, so its answers cannot be parsed."""

from pathlib import Path
from typing import Any

import pytest

from tests.fixtures import Fails, Reason, Run
from truthgym.tasks.urns import urns
from truthgym.training.tiny import tiny

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
pytest.importorskip("accelerate")
pytestmark = pytest.mark.slow


def test_a_name_with_a_colon_loads_the_folder_once(
    run: Run, reason: Reason, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, loads = tiny(tmp_path / "model", steps=0, hidden=32, layers=2), list[str]()
    load = transformers.AutoModelForCausalLM.from_pretrained

    def count(name: str, *arguments: Any, **options: Any) -> Any:
        model = load(name, *arguments, **options)
        loads.append(name)  # Inspect's attempt to load tiny:v1 from the hub fails
        return model

    monkeypatch.setattr(transformers.AutoModelForCausalLM, "from_pretrained", count)
    arguments = {"device": "cpu", "do_sample": False, "model_path": str(folder)}
    task = urns(n=2, paradigms="brier,martingale")
    log = run(task, "hf/tiny:v1", model_args=arguments, epochs=1, max_tokens=8)
    assert (log.eval.model, log.eval.model_args) == ("hf/tiny:v1", arguments)
    assert loads == [str(folder)]
    for sample in log.samples or []:
        assert sample.output.usage
        assert sample.output.usage.output_tokens == 8
        assert all("could be read" in reason(sample, scorer) for scorer in ("brier", "martingale"))
    assert log.results
    assert [score.metrics["share_scored"].value for score in log.results.scores] == [0, 0]


def test_a_folder_without_a_tokenizer_is_refused_before_the_first_call(fails: Fails, tmp_path: Path) -> None:
    folder = tiny(tmp_path / "model", steps=0, hidden=32, layers=1)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        (folder / file).unlink()
    arguments = {"device": "cpu", "model_path": str(folder)}
    error = fails(urns(n=1), "hf/tiny:v2", model_args=arguments, epochs=1, max_tokens=8)
    assert "hf/tiny:v2 has no tokenizer; save one with AutoTokenizer" in error
