"""The comparison of training methods: equal budgets, figures from logs, a page from figures."""

import csv
import json
import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import eval

from truthgym.tasks.urns import urns
from truthgym.training.closed_loop.options import parse_config

study = runpy.run_path("examples/compare_training.py")
ARMS = list(study["ARMS"])


def options(name: str, share: float = 1.0) -> dict[str, Any]:
    found: dict[str, Any] = study["options"](name, "tiny", 3, Path("base"), Path("judge"), Path("out"), share)
    return found


@pytest.mark.parametrize("share", [1.0, 0.2])
def test_every_arm_has_the_same_budget(share: float) -> None:
    """Replies that are sampled, and replies that are trained on. A pair is two."""
    for name in ARMS:
        arm = options(name, share)
        config = parse_config(arm)
        train, questions = config.train, config.train_args["n"]
        trained = config.rounds * train["max_steps"] * train["per_device_train_batch_size"]
        trained *= 2 if config.method == "dpo" else 1
        sampled = trained if config.method in ("grpo", "rloo") else config.rounds * questions * config.train_epochs
        assert sampled == pytest.approx(2400 * share, rel=0.1), name
        assert trained == pytest.approx(2400 * share, rel=0.12), name


def test_arms_differ_only_in_the_method() -> None:
    same = ("model_name_or_path", "task", "task_args", "held_out_args", "held_out_epochs", "seed", "max_tokens")
    for name in ARMS[1:]:
        assert {key: options(name)[key] for key in same} == {key: options(ARMS[0])[key] for key in same}
    assert options("dpo, rolling(2)")["buffer"] == "rolling(2)"
    assert options("grpo, groups of 8")["train"]["num_generations"] == 8
    assert options("dpo, current, LoRA r = 8")["train"]["lora_r"] == 8
    held_out = urns(**{"n": 300, "seed": 3000, "split": "test", "paradigms": "brier"}).dataset  # type: ignore[arg-type]
    asked = urns(n=200, seed=3000, split="train", paradigms="brier").dataset
    assert not {one.id for one in held_out} & {one.id for one in asked}


def test_a_win_is_closer_to_the_posterior_and_a_tie_is_half_a_win() -> None:
    def values(*some: list[float]) -> dict[str, Any]:
        return {str(number): (f"event {number}", one) for number, one in enumerate(some)}

    mine = values([0.1], [0.2], [0.3], [1.0], [0.1, 0.4])
    theirs = values([0.2], [0.2], [0.2], [0.9], [0.2])
    rate, lower, upper = study["win_rate"](mine, theirs)
    assert rate == pytest.approx((1 + 0.5 + 0 + 0 + 0.5) / 5)
    assert lower < rate < upper
    assert study["win_rate"](theirs, mine)[0] == pytest.approx(1 - rate)


def test_figures_come_from_the_logs(tmp_path: Path) -> None:
    """Of two simulated agents, with the other files of a loop beside their logs: the exact one wins, and KL is the mean
    difference of log-probabilities."""
    from inspect_ai.log import read_eval_log

    for arm, noise in (("sft", 0.4), ("dpo", 0.0)):
        folder = tmp_path / "tiny-0" / arm / "1d-held-out"
        task = urns(n=24, split="test", paradigms="brier")
        agent = {"noise": noise, "seed": 2}
        done = eval(task, model="reference/bayesian", model_args=agent, epochs=1, display="log", log_dir=str(folder))[0]
        samples = [str(one.uuid) for one in read_eval_log(done.location).samples or []]
        (folder / "reply_nll.json").write_text(json.dumps({uuid: [2.0, 6] for uuid in samples}))
        (folder / "start_nll.json").write_text(json.dumps({uuid: [2.5, 6] for uuid in samples}))
    shutil.copytree(tmp_path / "tiny-0" / "sft" / "1d-held-out", tmp_path / "tiny-0" / "sft" / "0-held-out")
    (tmp_path / "tiny-0" / "dpo-peak.json").write_text("2000000000")
    out = tmp_path / "docs" / "compared.md"
    study["main"]([str(tmp_path), "--only-page", "--seeds", "0", "--arms", "sft", "dpo", "--page", str(out)])
    with out.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["arm"] for row in rows] == ["the start", "sft", "dpo"]
    start, sft, dpo = rows
    assert sft["win_rate"] == "0.500"
    assert (dpo["win_rate"], dpo["distance"]) == ("1.000", "0.000")  # it says the exact posterior
    assert float(dpo["gold"]) < float(sft["gold"])
    assert (dpo["kl"], dpo["entropy"], dpo["form_rate"], dpo["peak_gb"]) == ("0.500", "2.000", "1.000", "2.00")
    assert (start["reward"], sft["peak_gb"]) == ("", "")
    page = out.read_text()
    assert page == study["page"](rows)
    assert "| dpo | 1 |" in page
    assert page.count(f"`{dpo['log']}`") == 1


def test_the_page_shows_the_range_over_seeds() -> None:
    keys = {"size": "tiny", "arm": "dpo", "log": "abc", **dict.fromkeys(study["HEADER"], "")}
    rows = [keys | {"seed": str(seed), "gold": gold} for seed, gold in enumerate(("0.2000", "0.2200"))]
    assert "| dpo | 2 |  | 0.210 (0.200 to 0.220) |" in study["page"](rows)
