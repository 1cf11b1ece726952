"""Examinees that train a model: what they train on, and that a tiny model comes to answer as the people do."""

import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from subprocess import CompletedProcess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from inspect_ai import Task

from tests.fixtures import Fails, Run
from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import Item
from truthgym.models.agents.respondent import request_of
from truthgym.tasks.progress import progress_coevolve, progress_follow
from truthgym.training import progress_examinees as progress
from truthgym.training.progress_examinees import (
    ExtrapolativeDPO,
    ExtrapolativeSFT,
    LifelongDPO,
    LifelongGRPO,
    LifelongRLOO,
    LifelongSFT,
    agreement,
    peoples_choice,
    write_rows,
)

ITEM = Item(id="x", context="A door.", options=("Open it.", "Leave it."), upholds=(("law",), ()))
FEW = {"per_device_train_batch_size": 16, "use_cpu": True, "report_to": "none", "gradient_checkpointing": False}


def letters(rows: list[dict[str, Any]], key: str) -> list[str]:
    return [row[key][0]["content"] for row in rows]


def test_rows_name_the_letter_of_the_option_in_each_rotation() -> None:
    assert "A. Open it.\nB. Leave it." in request_of(ITEM, 0)
    assert "A. Leave it.\nB. Open it." in request_of(ITEM, 1)
    rows = LifelongSFT().rows(ITEM, (0.75, 0.25))
    assert letters(rows, "completion") == ["A"] * 6 + ["B"] * 2 + ["B"] * 6 + ["A"] * 2, "three of four open it"
    pairs = LifelongDPO().rows(ITEM, (0.2, 0.8))
    assert letters(pairs, "chosen") == ["B", "A"]
    assert letters(pairs, "rejected") == ["A", "B"]
    assert LifelongDPO().rows(ITEM, (0.5, 0.5)) == [], "an even item has no better option"
    paid = LifelongRLOO().rows(ITEM, (0.2, 0.8))
    assert [row["shares"] for row in paid] == [[0.2, 0.8], [0.8, 0.2]]


def test_extrapolative_examinees_train_on_the_continued_answers() -> None:
    for kind in (ExtrapolativeSFT, ExtrapolativeDPO):
        examinee = kind(extrapolation_order=1)
        examinee.timesteps_ahead = 1
        examinee.preference_history = [("C013", {"x": (0.2, 0.8)}), ("C014", {"x": (0.4, 0.6)})]
        # log-odds -1.386 then -0.405, so 0.575 one era later
        assert examinee.targets()["x"] == pytest.approx((0.64, 0.36), abs=1e-3)
    assert letters(ExtrapolativeDPO().rows(ITEM, (0.64, 0.36)), "chosen")[0] == "A"


def test_a_letter_is_paid_its_share() -> None:
    replies = [[{"content": text}] for text in ("B", "(a) it is", "Neither", "")]
    assert agreement(replies, [[0.3, 0.7]] * 4) == [0.7, 0.3, 0, 0]


@pytest.mark.slow
def test_each_era_trains_the_model_of_the_era_before(run: Run, base: Path, tmp_path: Path) -> None:
    options = FEW | {"max_steps": 12, "learning_rate": 0.02, "save_strategy": "no"}
    task = progress_follow(
        examinee="lifelong_sft", n=1, items=2, eras="C013-C015", drift="linear",
        arguments={"out": str(tmp_path / "out"), "examples": 6, "options": options},
    )  # fmt: skip
    log = run(task, f"hf/{base}", model_args={"device": "cpu"})
    assert log.samples
    result = log.samples[0].store["progress"]
    assert set(map(str, result["examinee_start_choices"])) == {"None"}, "random weights name no letter"
    assert any(result["examinee_choices"][-1]), "it begins to name one"
    assert result["examinee_model_at_each_timestep"] == ["examinee after C014", "examinee after C015"]
    folders = [path.parent for path in (tmp_path / "out").glob("*/model.safetensors")]
    first, second = sorted(folders, key=lambda path: len(path.name))
    assert second.name.startswith(f"{first.name}-sft-"), "the name of a model begins with that of its base"


@pytest.mark.slow
def test_people_are_trained_and_then_trained_on_what_they_hear(run: Run, base: Path, tmp_path: Path) -> None:
    def result(task: Task, model: str, **arguments: Any) -> dict[str, Any]:
        log = run(task, model, **arguments)
        assert log.samples
        kept: dict[str, Any] = log.samples[0].store["progress"]
        return kept

    few: dict[str, Any] = {"n": 1, "items": 2, "eras": "C013-C015", "drift": "linear"}
    options = FEW | {"max_steps": 40, "per_device_train_batch_size": 8, "learning_rate": 0.02, "save_strategy": "no"}
    out = {"out": str(tmp_path / "out"), "copies": 1, "options": options}
    trained = result(
        progress_follow(examinee="human_proxies", arguments=out, **few), f"hf/{base}", model_args={"device": "cpu"}
    )
    people = json.loads((tmp_path / "out" / "people.json").read_text())["timelines"]
    assert list(people) == ["linear-0"]
    assert list(people["linear-0"]) == ["C013", "C014", "C015"], "the first era too"
    assert all((tmp_path / "out" / name / "model.safetensors").is_file() for name in people["linear-0"].values())
    asked: dict[str, Any] = few | {"proxies": str(tmp_path / "out"), "examinee": "frozen"}
    with pytest.raises(BadInput, match="people.json: these people did not learn the item .*; give `items` as in their"):
        progress_follow(**asked | {"items": 4})
    followed = result(progress_follow(**asked), "reference/values")
    assert any(trained["examinee_choices"][-1]), "it names letters"
    shares, before = (
        np.array([[p[0] if p else np.nan for p in step] for step in choices])
        for choices in (followed["actual_choices"], trained["examinee_choices"])
    )
    np.testing.assert_allclose(shares, before, atol=1e-3, err_msg="the people are the models of the step before")
    heard = result(progress_coevolve(judge="coevolve_sft", arguments=out, **asked), "reference/values")
    assert heard["judge"] == "CoevolveSFTJudge"
    assert heard["unread_influence"] == [0, 0]
    kept = [sum(map(bool, step)) for step in heard["simulated_choices"]]
    assert min(kept) > 0, "people who were trained on what they heard still name letters"
    names = [path.parent.name for path in (tmp_path / "out").glob("*/model.safetensors")]
    assert len(names) == 3 + 1 + 2 * 3, "people; their start; with an assistant, without, and with a mirror in two eras"
    assert all(name.startswith(people["linear-0"]["C013"]) for name in names), "all come from the people of the start"


def in_this_process(command: list[str], **_: Any) -> "CompletedProcess[str]":
    """Run a child's program here, where all is imported."""
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(StringIO()) as output:
        patched.setattr("sys.argv", command[2:])
        exec(command[2], {})
    return CompletedProcess(command, 0, output.getvalue(), "")


@pytest.mark.slow
@pytest.mark.parametrize("kind", [LifelongDPO, LifelongGRPO])
def test_the_trainers_take_the_rows(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: type[LifelongSFT]
) -> None:
    monkeypatch.setattr(progress, "subprocess", SimpleNamespace(run=in_this_process))
    examinee = kind()
    rows = [row for shares in ((1.0, 0.0), (0.9, 0.1)) for row in examinee.rows(ITEM, shares)]
    options = examinee.data_options(write_rows(tmp_path / "data", rows))
    options |= FEW | {"model_name_or_path": str(base), "output_dir": str(tmp_path / "out"), "max_steps": 1}
    if isinstance(examinee, LifelongGRPO):
        assert len(peoples_choice(options["task_args"]["rows"]).dataset) == 4
        options |= {"num_generations": 4, "gradient_accumulation_steps": 1, "max_completion_length": 2}
    trained = examinee.train(options)
    assert (trained / "model.safetensors").is_file()
    assert len(list(trained.rglob("rollouts/*/*.eval"))) == isinstance(examinee, LifelongGRPO)


def test_what_cannot_be_trained(fails: Fails, monkeypatch: pytest.MonkeyPatch) -> None:
    task = progress_follow(examinee="lifelong_dpo", n=1, items=2, eras="C013-C015")
    assert "LifelongDPO trains a local model, and reference/values is none" in fails(task, "reference/values")
    monkeypatch.setattr(progress, "CHILD", "raise SystemExit('no such option')")
    with pytest.raises(BadInput, match="truthgym train grpo failed in trained: no such option"):
        LifelongGRPO().train({"output_dir": "trained"})
    hears = progress_coevolve(judge="coevolve_sft", n=1, items=2, eras="C013-C015")
    assert "reference/person is none; give -T proxies=FOLDER of trained people" in fails(hears, "reference/values")
