"""The comparison of training methods: equal budgets, figures from logs, a page from figures."""

import csv
import json
import shutil
from pathlib import Path
from statistics import stdev
from typing import Any

import pytest
from inspect_ai import eval
from inspect_ai.log import EvalLog, read_eval_log, write_eval_log
from inspect_ai.scorer import Score

from examples import compare_training
from tests.fixtures import QUIET
from truthgym.tasks.worlds import urns
from truthgym.training.closed_loop.options import open_folder, parse_config

ARMS = list(compare_training.ARMS)


def options(name: str, share: float = 1.0) -> dict[str, Any]:
    study = compare_training.Study(share)
    found: dict[str, Any] = compare_training.options(name, "tiny", 3, "base", ["judge"], Path("out"), study)
    return found


@pytest.mark.parametrize(("share", "answers", "steps"), [(1.0, 768, 48), (0.25, 192, 12)])
def test_every_arm_has_the_same_budget(share: float, answers: int, steps: int) -> None:
    """Gradient steps, replies that are sampled, and replies that are trained on. A pair is two."""
    for name in ARMS:
        config = parse_config(options(name, share))
        train, by_rollouts = config.train, config.method in ("grpo", "rloo")
        assert config.rounds * train["max_steps"] == steps, name
        trained = steps * train["per_device_train_batch_size"] * (2 if config.method == "dpo" else 1)
        asked = config.rounds * config.train_args["n"] * config.train_epochs
        sampled = trained / train["num_iterations"] if by_rollouts else asked
        assert (sampled, trained) == (answers, 2 * answers), name


def test_arms_differ_only_in_the_method() -> None:
    same = ("model_name_or_path", "task", "task_args", "held_out_args", "held_out_epochs", "seed", "max_tokens")
    for name in ARMS[1:]:
        assert {key: options(name)[key] for key in same} == {key: options(ARMS[0])[key] for key in same}
    assert options("dpo, rolling(2)")["buffer"] == "rolling(2)"
    assert options("grpo, groups of 8")["train"]["num_generations"] == 8
    full, lora = (options(name)["train"] for name in ("dpo", "dpo, LoRA r = 8"))
    assert lora.items() - full.items() == {
        ("use_peft", True), ("lora_r", 8), ("lora_alpha", 16), ("learning_rate", 10 * full["learning_rate"])
    }  # fmt: skip
    held_out = urns(**{"n": 300, "seed": 3000, "split": "test", "paradigms": "brier"}).dataset
    asked = urns(n=200, seed=3000, split="train", paradigms="brier").dataset
    assert not {one.id for one in held_out} & {one.id for one in asked}


def answered(folder: Path, n: int, noise: float) -> EvalLog:
    """What a simulated agent answered on held-out questions."""
    task, agent = urns(n=n, split="test", paradigms="brier"), {"noise": noise, "seed": 2}
    done = eval(task, model="reference/bayesian", model_args=agent, epochs=1, **QUIET, log_dir=str(folder))[0]
    return read_eval_log(done.location)


def test_figures_come_from_the_logs(tmp_path: Path) -> None:
    """Of two simulated agents, with the other files of a loop beside their logs: the exact one wins, an answer that
    cannot be read counts as wrong, and KL is the mean difference of log-probabilities."""
    for arm, noise in (("sft", 0.4), ("dpo", 0.0)):
        folder = tmp_path / "tiny-0" / arm / "1d-held-out"
        log = answered(folder, 24, noise)
        samples = [str(one.uuid) for one in log.samples or []]
        (folder / "reply_nll.json").write_text(json.dumps({uuid: [2.0, 6] for uuid in samples}))
        nll = 2.5 if arm == "dpo" else 2.0
        (folder / "start_nll.json").write_text(json.dumps({uuid: [nll + 0.2 * (i % 2), 6]
                                                           for i, uuid in enumerate(samples)}))  # fmt: skip
    shutil.copytree(tmp_path / "tiny-0" / "sft" / "1d-held-out", tmp_path / "tiny-0" / "sft" / "0-held-out")
    assert log.samples
    for sample in log.samples[:6]:  # a quarter of what dpo says states nothing
        assert sample.scores
        sample.scores["brier"].value = {"brier_score": float("nan")}
        sample.scores["brier"].metadata = {"reason": "unread"}
    write_eval_log(log)
    kept = [float(one.scores["brier"].value["brier_score"]) for one in log.samples[6:]]  # type: ignore[index, call-overload, arg-type]
    out = tmp_path / "docs" / "compared.md"
    compare_training.main([str(tmp_path), "--only-page", "--seeds", "0", "--arms", "sft", "dpo", "--page", str(out)])
    with out.with_suffix(".csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["arm"] for row in rows] == ["the start", "sft", "dpo"]
    start, sft, dpo = rows
    assert sft["form_rate"] == "1.000"
    assert dpo["distance"] == "0.250", "where it states one, the exact posterior"
    assert float(dpo["gold_read"]) == pytest.approx(sum(kept) / 18, abs=1e-4)
    assert float(dpo["gold"]) == pytest.approx((sum(kept) + 6) / 24, abs=1e-4)
    assert (dpo["kl"], dpo["entropy"], dpo["form_rate"], start["reward"]) == ("0.600", "2.000", "0.750", "")
    page = out.read_text()
    assert page.startswith(compare_training.WORDS.read_text(encoding="utf-8")[:50])
    assert "[compared.csv](compared.csv)" in page
    assert compare_training.tables(rows) in page
    assert "| dpo | 1 |" in page


def test_an_arm_paid_by_the_rubric_is_measured_by_its_own_reward(tmp_path: Path) -> None:
    """Its gain is over the start's reward by the same model, and the column of the other reward model is empty."""

    def answer(arm: str, folder: str, noise: float, rewards: float, scale: float) -> None:
        log = answered(tmp_path / "tiny-0" / arm / folder, 12, noise)
        for sample in log.samples or []:
            assert sample.scores
            brier = sample.scores["brier"].value["brier_score"]  # type: ignore[index, call-overload]
            briers.append(float(brier))  # type: ignore[arg-type]
            sample.scores["reward_model"] = Score(value={"reward": rewards + scale * briers[-1]})
        mean = sum(briers[-12:]) / 12
        for sample in log.samples or []:
            assert sample.scores
            sample.scores["reward_model"].value["reward"] -= scale * mean  # type: ignore[index, call-overload, operator]
        write_eval_log(log)

    assert compare_training.place(tmp_path, "dpo, rubric").name == "dpo--rubric"
    briers: list[float] = []
    for arm, before, after, scale in (("dpo", -1.0, 1.0, 2.0), ("dpo--rubric", 0.4, 0.5, -0.5)):
        answer(arm, "0-held-out", 0.4, before, scale)
        answer(arm, "1d-held-out", 0.0, after, 0.0)
    out = tmp_path / "compared.md"
    compare_training.main(
        [str(tmp_path), "--only-page", "--seeds", "0", "--arms", "dpo", "dpo, rubric", "--page", str(out)]
    )
    with out.with_suffix(".csv").open(newline="") as file:
        rows = {row["arm"]: row for row in csv.DictReader(file)}
    assert (rows["dpo"]["reward"], rows["dpo"]["gain"]) == ("1.0000", "2.0000")
    assert (rows["dpo, rubric"]["reward"], rows["dpo, rubric"]["gain"]) == ("", "0.1000")
    spread = stdev(briers[:12])  # of the start's Brier scores, which one model pays for and the other punishes
    for arm, sd, rank in (("dpo", 2 * spread, "-1.000"), ("dpo, rubric", spread / 2, "1.000")):
        assert float(rows[arm]["judge_sd"]) == pytest.approx(sd, abs=1e-4)
        assert rows[arm]["judge_rank"] == rank
    table = out.read_text().split("| reward model |")[1]
    assert "| of pairs | " in table
    assert "| of the rubric | " in table


def test_the_page_compares_arms_by_seed() -> None:
    keys = {
        "size": "tiny",
        "log": "abc",
        **dict.fromkeys([*compare_training.HEADER, *compare_training.PAIRED, *compare_training.JUDGES], ""),
    }
    changes = {"the start": 0.0, "dpo": 0.02, "dpo, rubric": 0.04}
    rows = [keys | {"arm": arm, "seed": str(seed), "gold": f"{0.2 + seed / 10 + change + seed * change / 10:.4f}"}
            for arm, change in changes.items() for seed in range(3)]  # fmt: skip
    text = compare_training.tables(rows)
    # differences 0.02, 0.022, 0.024: the seeds' own spread cancels
    (dpo,) = (line for line in text.splitlines() if line.startswith("| dpo |"))
    assert dpo.endswith("| - | - | 0.022 [0.017, 0.027] | - |"), "form rate, reward, Brier, distance"
    assert "| dpo, rubric | 0.022 [0.017, 0.027] | - |" in text.rpartition("paid by pairs")[2], "an arm and its twin"
    assert "paid by pairs" not in compare_training.tables(rows[:6])


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--model", "a/checkpoint-9", "b/checkpoint-9"], "a/checkpoint-9 b/checkpoint-9: two folders have the same"),
        (["--dataset", "data/pirs"], "data/pirs: no such folder; make it with truthgym convert --to preference"),
    ],
)
def test_what_would_mix_two_things_up_is_refused(
    options: list[str], problem: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        compare_training.main([str(tmp_path), *options])
    assert problem in capsys.readouterr().err


def test_a_sweep_of_penalties_says_what_the_penalty_did() -> None:
    """Each arm minus the one with the first penalty, by seed; the spread has a column where there is an ensemble."""
    usual = {"size": "tiny", "log": "abc", **dict.fromkeys([*compare_training.HEADER, *compare_training.PAIRED], "")}
    spread = {"the start": 0.4, "dpo, penalty 0": 0.5, "dpo, penalty 1": 0.3}
    rows = [usual | {"arm": arm, "seed": str(seed), "gold": "0.2", "spread": f"{value * (1 + seed / 100) + seed:.4f}"}
            for arm, value in spread.items() for seed in range(3)]  # fmt: skip
    arms, _, twins = compare_training.tables(rows).partition("with penalty 0 |")
    assert "| spread minus the start |" in arms
    (row,) = [line for line in twins.splitlines() if line.startswith("| dpo, penalty")]
    assert row.startswith("| dpo, penalty 1 | - | -0.202 [-0.207, -0.197] | 0.000 [0.000, 0.000] |")


def test_every_arm_begins_with_the_same_answers_of_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second arm copies them, and the loop accepts its folder as one that it began."""
    from truthgym.training import loop

    given: list[dict[str, Any]] = []
    monkeypatch.setattr(loop, "loop", given.append)
    monkeypatch.setattr(compare_training, "prepare", lambda *_: ("base", ["judge"]))
    compare_training.run("sft", "tiny", 0, tmp_path, compare_training.Study())
    (tmp_path / "sft" / "report.json").touch()
    for stage in ("0-held-out", "1a-asked"):
        (tmp_path / "sft" / stage).mkdir()
        (tmp_path / "sft" / stage / "answers").write_text(stage)
    for name in ("dpo", "dpo, full"):
        compare_training.run(name, "tiny", 0, tmp_path, compare_training.Study())
        assert open_folder(parse_config(given[-1])) == compare_training.place(tmp_path, name)
        assert (compare_training.place(tmp_path, name) / "0-held-out" / "answers").read_text() == "0-held-out"
    assert (tmp_path / "dpo" / "1a-asked" / "answers").is_file()
    assert not (tmp_path / "dpo--full" / "1a-asked").exists(), "it asks other questions in its first round"


@pytest.mark.parametrize("penalties", [[], ["--penalties", "0", "0.5"]])
def test_own_models_questions_and_pairs_reach_every_arm(
    penalties: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A penalty is an arm of its own, paid by an ensemble."""
    from truthgym.training import loop, train

    given: list[dict[str, Any]] = []
    rewards: list[dict[str, Any]] = []

    def reward(options: dict[str, Any]) -> str:
        rewards.append(options)
        return f"reward {options['seed']}"

    monkeypatch.setattr(loop, "loop", given.append)
    monkeypatch.setattr(train, "reward", reward)
    monkeypatch.setattr(compare_training, "figures", lambda *_: [])
    pairs = tmp_path / "pairs"
    pairs.mkdir()
    own = ["--model", "mine/large", "mine/tiny", "--task", "truthgym/questions", "--task-args", "{source: mine.jsonl}"]
    own += ["--dataset", str(pairs), "--seeds", "0", "--arms", "dpo", "--page", str(tmp_path / "page.md"), *penalties]
    with pytest.raises(IndexError):  # no row, since there are no figures
        compare_training.main([str(tmp_path), *own])
    assert [options["model_name_or_path"] for options in given[:: max(1, len(penalties) - 1)]] == [
        "mine/large",
        "mine/tiny",
    ]
    assert {options["max_tokens"] for options in given} == {512}, "the name of a folder decides nothing"
    assert {(options["task"][0], options["task_args"]["source"]) for options in given} == {
        ("truthgym/questions", "mine.jsonl")
    }
    assert {options["dataset_name"] for options in rewards} == {str(pairs)}
    paying = [options["task_args"]["paradigms"]["reward_model"] for options in given[: len(given) // 2]]
    three = ["reward 0", "reward 1", "reward 2"]
    expected = (
        [{"folder": three, "penalty": 0.0}, {"folder": three, "penalty": 0.5}] if penalties else [{"folder": three[:1]}]
    )
    assert paying == expected
