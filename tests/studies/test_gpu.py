"""studies/gpu/loop.py on a CPU."""

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.fixtures import Run
from truthgym.tasks.worlds import urns

pytest.importorskip("trl")
from studies.gpu import loop


def test_the_loop_runs_whole_on_a_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from truthgym.training.tiny import tiny

    monkeypatch.setattr(loop, "TEMPERATURES", (1.0,))
    monkeypatch.setattr(loop, "OTHERS", {"almanac": {"kind": "polls"}})
    model, out, work = tiny(tmp_path / "tiny", steps=0, hidden=32), tmp_path / "out", tmp_path / "work"
    words = "--steps 2 --n 2 --form-steps 2 --form-rows 3 --questions 3 --rollouts 2 --train-n 6"
    loop.main([str(model), str(out), "--work", str(work), *words.split()])
    assert {path.name for path in out.iterdir()} == {"result.md", "result.json", "answers.csv"}
    answers = pd.read_csv(out / "answers.csv")
    assert answers.groupby("model").size().to_dict() == dict.fromkeys(loop.MODELS, 8)
    trained = {name: next((work / name).glob("*/trainer_state.json")).parent for name in loop.MODELS[1:]}
    for folder in trained.values():
        assert json.loads((folder / "trainer_state.json").read_text())["global_step"] == 2
    cards = {name: (folder / "README.md").read_text() for name, folder in trained.items()}
    assert ("shuffled" in cards["grpo"], "shuffled" in cards["control"]) == (False, True)
    begun = str(trained["form"])
    assert begun in cards["grpo"]
    assert begun in cards["control"]


def test_rows_of_the_form_ask_as_an_evaluation_does(run: Run, tmp_path: Path) -> None:
    rows = loop.base_rate_rows(loop.Setup("org/model", tmp_path, form_steps=2, form_rows=6))
    log = run(urns(n=4, seed=loop.SEEDS["form"], split="train", paradigms="brier", likelihood_ratio=3.0))
    assert log.samples
    asked = {sample.messages[0].text: sample.metadata["base_rate"] for sample in log.samples}
    told = {row["prompt"][0]["content"]: row["completion"][0]["content"] for row in rows}
    assert len(told) == 12
    assert set(asked) < set(told)
    stated = [told[text] == rf"\finalBeliefProb{{{rate:.2f}}}" for text, rate in asked.items()]
    assert sum(stated) == 2, "half of the rows state the base rate itself"


def test_the_control_gives_each_question_the_rewards_of_its_own_rollouts() -> None:
    said = [0.1, 0.2, 0.3, 0.4, None, 0.9]
    completions = [[{"role": "assistant", "content": rf"\finalBeliefProb{{{p}}}" if p else "?"}] for p in said]
    columns = {"task": ["t"] * 6, "sample_id": ["a"] * 4 + ["b"] * 2, "target": ["yes"] * 6}
    given = loop.shuffled([None] * 6, completions, log_metric=lambda *_: None, **columns)
    own = [-0.81, -0.64, -0.49, -0.36, -1.0, -0.01]
    assert given != pytest.approx(own)
    assert sorted(given[:4], key=float) == pytest.approx(own[:4])  # type: ignore[arg-type]
    assert sorted(given[4:], key=float) == pytest.approx(own[4:])  # type: ignore[arg-type]


def answered(beliefs: Mapping[str, float | None], n: int = 60) -> pd.DataFrame:
    """Answers of models in every world: a belief for all questions, or None for the exact posterior."""
    rng = np.random.default_rng(0)
    rows = []
    for world in (*loop.TRAINED, *loop.OTHERS):
        base = rng.uniform(0.2, 0.8, n)
        exact = np.clip(base + rng.choice([-0.19, 0.19], n), 0.01, 0.99)
        outcome = (rng.random(n) < exact).astype(float)
        for model, belief in beliefs.items():
            own = exact if belief is None else np.full(n, belief)
            rows.append(pd.DataFrame({
                "model": model, "temperature": 1.0, "world": world, "id": range(n), "belief": own, "outcome": outcome,
                "base_rate": base, "exact": exact, "answer": "",
            }))  # fmt: skip
    return pd.concat(rows)


@pytest.mark.parametrize(
    ("grpo", "reached", "sentence"),
    [
        (None, [True, True, True], "a gain over the start and the best constant and the stated base rate."),
        (0.5, [False, True, True], "a gain over the start, but not over the best constant or the stated base rate."),
        (0.99, [False, True, False], "no gain over the start or the best constant or the stated base rate."),
    ],
    ids=["exact", "constant", "worse"],
)
def test_the_verdict_names_what_was_reached(
    grpo: float | None, reached: list[bool], sentence: str, tmp_path: Path
) -> None:
    start = 0.5 if grpo == 0.99 else 0.95
    answered({"start": start, "form": 0.5, "grpo": grpo, "control": 0.5}).to_csv(tmp_path / "answers-x.csv")
    result = loop.write(loop.Setup("org/model", tmp_path), tmp_path / "out")
    assert list(result["verdict"]["reached"].values()) == reached
    assert result["verdict"]["sentences"][0].endswith(sentence)
    rows = {(row["place"], row["who"]): row for row in result["tables"]["1"]["figures"]}
    own, exact = rows["trained on", "grpo"], rows["trained on", "exact reader"]
    assert own["read"].estimate == 1
    if grpo is None:
        assert own["brier"] == exact["brier"]
        assert (own["exact"].estimate, own["evidence"].estimate) == pytest.approx((1, 1))
    else:
        assert np.isnan(own["exact"].estimate), "answers that never vary have no correlation"
    page = (tmp_path / "out" / "result.md").read_text()
    assert result["verdict"]["sentences"][0] in page
    assert "nan" not in page
