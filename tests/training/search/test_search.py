"""The search: what it finds where truth is planted, what it does not find, and that it goes on after a kill."""

import asyncio
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from inspect_ai import score
from inspect_ai.log import EvalLog, read_eval_log

from truthgym.cli.rubric import command
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.quality_markers import TOPICS
from truthgym.scorers.rubric import rubric
from truthgym.scorers.rubrics.reward import ModelSpec, Protocol, read_artifact
from truthgym.scorers.rubrics.rubric import Criterion, Rubric
from truthgym.tasks import urns
from truthgym.training.lineage import Lineage, store_of
from truthgym.training.rubric_search import rubric_search
from truthgym.training.search.candidates import TRUE_WEIGHTS, Prompt, bundled, make_labels, read_prompts, split_prompts
from truthgym.training.search.config import VERIFIER, SearchConfig, config_of, options_of
from truthgym.training.search.deployment import deploy, deployed, export, read_record, rollback
from truthgym.training.search.engine import Search
from truthgym.training.search.objective import objective
from truthgym.training.search.result import read_result
from truthgym.training.search.rubric_scores import Scores

SMALL = SearchConfig(generations=2, population=3, mutations=3, parents=2, protocol=Protocol(votes=1), held_out=0.5)


def named(*topics: str) -> Rubric:
    weights = dict(zip(TOPICS, TRUE_WEIGHTS, strict=True))
    criteria = tuple(
        Criterion(id=f"c{i}", text=f"Names {topic}.", weight=weights.get(topic) or 1.0)
        for i, topic in enumerate(topics)
    )
    return Rubric(name="planted", criteria=criteria)


def few(prompts: int, candidates: int) -> tuple[Prompt, ...]:
    """Some of the bundled prompts, with fewer candidates."""
    every = bundled(prompts=prompts).prompts
    return tuple(prompt.model_copy(update={"candidates": prompt.candidates[:candidates]}) for prompt in every)


def without_ranks(prompts: tuple[Prompt, ...]) -> list[Prompt]:
    plain = [tuple(c.model_copy(update={"metadata": {}}) for c in prompt.candidates) for prompt in prompts]
    return [prompt.model_copy(update={"candidates": own}) for prompt, own in zip(prompts, plain, strict=True)]


def write(folder: Path, prompts: Any) -> str:
    file = folder / "mine.json"
    file.write_text(json.dumps({"prompts": [prompt.model_dump(mode="json") for prompt in prompts]}))
    return str(file)


def scores_of(prompts: Any, config: SearchConfig = SMALL) -> Scores:
    labels, _ = asyncio.run(make_labels(prompts, None, Path("none")))
    return Scores(config.protocol, [verifier.load() for verifier in config.verifiers], labels)


def searching(prompts: Any, config: SearchConfig, file: Path | None = None) -> Search:
    return Search(config, prompts, scores_of(prompts, config), file)


OPTIONS = {"generations": 2, "population": 3, "mutations": 3, "parents": 2, "votes": 1, "held_out": 0.5}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small search of the seed's JSON."""
    folder = tmp_path_factory.mktemp("search")
    rubric_search(write(folder, few(4, 5)), folder / "out", config_of(OPTIONS), arguments=options_of(OPTIONS))
    return folder / "out"


def test_the_true_rubric_wins_on_held_out_prompts() -> None:
    _, held_out = split_prompts(bundled(), 0.375)
    scores = scores_of(held_out)

    def value(rubric: Rubric) -> float:
        return objective(asyncio.run(scores.score(rubric, held_out)), SMALL.weights).total.estimate

    true, decoys = value(named(*TOPICS[:5])), value(named(*TOPICS[5:]))
    impression = value(Rubric(name="r", criteria=(Criterion(id="good", text="Is good."),)))
    length = value(Rubric(name="r", criteria=(Criterion(id="long", text="Answers at length."),)))
    assert true > 1.0
    assert max(decoys, impression, length) < 0.85
    assert true > value(named(*TOPICS)) > decoys


def test_without_a_signal_it_finds_nothing_on_held_out_prompts() -> None:
    searched, held_out = split_prompts(bundled(prompts=8, signal=False), 0.5)
    search = searching(searched, SMALL)
    best = asyncio.run(search.run())
    scores = scores_of(held_out)
    inside = asyncio.run(search.measure(best)).tail_acc
    outside = objective(asyncio.run(scores.score(best, held_out)), SMALL.weights)
    assert inside > outside.tail_acc
    assert outside.tail_acc < 0.65


def test_a_killed_search_ends_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prompts = few(2, 4)
    config = SMALL.model_copy(update={"schedule": "success_feedback", "selection": "tournament"})
    whole = searching(prompts, config)
    expected = asyncio.run(whole.run())
    for kill in (0, 1):
        file = tmp_path / f"{kill}.json"
        search = searching(prompts, config, file)
        saved = search._save

        def stop(kill: int = kill, search: Search = search, saved: Any = saved) -> None:
            saved()
            if search.state["generation"] == kill:
                raise KeyboardInterrupt

        monkeypatch.setattr(search, "_save", stop)
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(search.run())
        again = searching(prompts, config, file)
        assert asyncio.run(again.run()) == expected
        assert again.state["history"] == whole.state["history"]
    with pytest.raises(BadInput, match="search with other prompts or options"):
        asyncio.run(searching(prompts, config.model_copy(update={"seed": 8}), file).run())


MESSAGES = [{"role": "user", "content": "Why?"}]


def reply(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


@pytest.mark.parametrize(
    "row",
    [
        {"prompt": "Why?", "chosen": "So.", "rejected": "No."},
        {"prompt": MESSAGES, "chosen": reply("So."), "rejected": reply("No.")},
        {"chosen": MESSAGES + reply("So."), "rejected": MESSAGES + reply("No.")},
        {"chosen": "Why? Assistant: So.", "rejected": "Why? Assistant: No."},
    ],
    ids=["texts", "messages", "messages without prompt", "texts without prompt"],
)
def test_preference_pairs_are_prompts_with_two_candidates(row: dict[str, Any], tmp_path: Path) -> None:
    for place in (tmp_path / "train.jsonl", tmp_path):
        (tmp_path / "train.jsonl").write_text(f"{json.dumps(row)}\n" * 2)
        one, other = read_prompts(str(place)).prompts
        assert (one.prompt, other.prompt) == (one.prompt,) * 2
        assert one.prompt.startswith("Why?")
        assert {c.text: c.metadata["rank"] for c in one.candidates} == {"So.": 1, "No.": 2}
    refused = CliRunner().invoke(command, ["search", "--dataset", str(tmp_path), "--out", str(tmp_path / "out")])
    assert isinstance(refused.exception, BadInput)
    assert "--verifier MODEL --proposer MODEL --initializer MODEL" in str(refused.exception)
    assert not (tmp_path / "out").exists()


def test_a_log_is_converted_to_pairs(run: Callable[..., EvalLog]) -> None:
    log = run(urns(n=12, paradigms="brier", split="train"), "reference/random", epochs=3)
    for place in (Path(log.location), Path(log.location).parent):
        prompts = read_prompts(str(place)).prompts
        assert len(prompts) >= 2
        assert all(sorted(c.metadata["rank"] for c in prompt.candidates) == [1, 2] for prompt in prompts)


def test_a_row_that_is_no_pair_is_named(tmp_path: Path) -> None:
    alike = {"prompt": "W", "chosen": "a", "rejected": "a"}
    for row, said in (({"prompt": "Why?", "chosen": "So."}, "no pair"), (alike, "the same")):
        (tmp_path / "train.jsonl").write_text(json.dumps(row))
        with pytest.raises(BadInput, match=rf"train.jsonl.*1.*{said}"):
            read_prompts(str(tmp_path))


def test_the_best_never_gets_worse() -> None:
    prompts = few(2, 5)
    for changes in ({"mode": "iterative", "generations": 6}, {"selection": "top_k", "schedule": "diversity_driven"}):
        search = searching(prompts, SMALL.model_copy(update=changes))
        asyncio.run(search.run())
        values = [generation["best"] for generation in search.state["history"]]
        assert values == sorted(values)
        assert len(search.population) == (1 if "mode" in changes else 3)


def test_prompt_local_stops_when_the_best_two_are_told_apart() -> None:
    prompts = bundled(prompts=2).prompts[:1]
    config = SMALL.model_copy(update={"scope": "prompt_local", "initial": "rubric", "initial_rubric": "truth_seeking"})
    easy = searching(prompts, config.model_copy(update={"distinguish_margin": 0.0}))
    best = asyncio.run(easy.run())
    assert best.scope == "prompt"
    never = searching(prompts, config.model_copy(update={"distinguish_margin": 1.0}))
    asyncio.run(never.run())
    assert easy.state["generation"] <= never.state["generation"] == 2


def test_labels_of_a_judge_are_made_once(tmp_path: Path) -> None:
    prompts = without_ranks(few(2, 3))
    with pytest.raises(BadInput, match="name a model that compares"):
        rubric_search(write(tmp_path, prompts), tmp_path / "out")
    judge = ModelSpec(model="reference/judge").load()
    labels, calls = asyncio.run(make_labels(prompts, judge, tmp_path))
    again, none = asyncio.run(make_labels(prompts, judge, tmp_path))
    assert (calls, none) == (2 * 3 * 2, 0)
    assert all((labels[name] == again[name])[~(labels[name] != labels[name])].all() for name in labels)
    for label in labels.values():
        assert (label + label.T)[~(label != label)] == pytest.approx(1)
    lazy = ModelSpec(model="reference/judge", model_args={"position": 0.5, "seed": 3}).load()
    biased, other = asyncio.run(make_labels(prompts, lazy, tmp_path))
    assert other == calls, "the labels of one judge are not another's"
    ties, own_ties = (sum((label == 0.5).sum() for label in judged.values()) for judged in (biased, labels))
    assert ties > own_ties


def test_bad_prompts_and_options_are_one_message(tmp_path: Path) -> None:
    first, second = bundled(prompts=2).prompts
    for prompts, message in (([first], "prompts"), ([first, second.model_copy(update={"prompt_id": first.prompt_id})],
                                                    "two prompts have one id")):  # fmt: skip
        with pytest.raises(BadInput, match=message):
            read_prompts(write(tmp_path, prompts))
    for options, message in (
        ({"selection": "best", "survival": 2.0}, "survival`: 2.0.*selection`: '?\"?best"),
        ({"judge": "{model_args: {}}"}, "names no model"),
        ({"extraction": "{kind: tag}"}, "a pattern goes with"),
    ):
        with pytest.raises(BadInput, match=message):
            config_of(options)


def test_options_are_written_as_they_were_given() -> None:
    options = {"stop_when_distinguished": False, "verifiers": ("{model: a/b, model_args: {x: 1}}", "c/d"), "seed": 3}
    assert options_of(options) == [
        "--no-stop-when-distinguished", "--verifier", "{model: a/b, model_args: {x: 1}}", "--verifier", "c/d",
        "--seed", "3",
    ]  # fmt: skip
    assert config_of(options).verifiers[0] == ModelSpec(model="a/b", model_args={"x": 1})


def test_what_a_run_leaves(finished: Path) -> None:
    content = read_result(finished)["content"]
    assert set(content["arms"]) == {"search", "no_rubric", "prompt_only", "human_rubric"}
    assert [arm["held_out"]["prompts"] for arm in content["arms"].values()] == [2] * 4
    first = content["best_rubrics"][0]
    assert first["candidate_scores"][first["best_candidate_id"]] == max(first["candidate_scores"].values())
    assert set(content["best_objective_scores"]) == {best["prompt_id"] for best in content["best_rubrics"]}
    total = content["arms"]["search"]["searched"]["objective"]["estimate"]
    assert np.mean(list(content["best_objective_scores"].values())) == pytest.approx(total, abs=1e-5)
    assert content["unscored"] == 0
    script = (finished / "reproduce.sh").read_text()
    assert "--generations 2 --population 3" in script
    assert f"--digest {read_result(finished)['digest']}" in script
    texts = [file.read_text() for file in finished.glob("*.*") if file.is_file()]
    assert not [word for text in texts for word in (str(finished), str(Path.home())) if word in text]
    with pytest.raises(BadInput, match="has the result of a search"):
        rubric_search("bundled", finished)


def test_inspect_score_gives_the_searchs_numbers(finished: Path) -> None:
    result = read_result(finished)
    log = read_eval_log(str(finished / "logs" / result["run_manifest"]["base_log"]))
    scored = score(log, rubric(result["content"]["rubrics"][0]), model_roles={"judge": VERIFIER.load()}, display="log")
    by_id = {sample.id: sample.scores["rubric"].value["rubric_score"] for sample in scored.samples or []}  # type: ignore[index, call-overload]
    for best_rubric in result["content"]["best_rubrics"]:
        for name, value in best_rubric["candidate_scores"].items():
            assert by_id[f"{best_rubric['prompt_id']}/{name}"] == pytest.approx(value, abs=1e-6)


def test_an_artifact_is_exported_deployed_and_rolled_back(finished: Path, tmp_path: Path) -> None:
    artifact, path = export(finished, tmp_path / "rm.json")
    assert export(finished, tmp_path / "again.json")[0] == artifact, "the id is of the content"
    assert read_artifact(str(path)) == artifact
    assert artifact.content.reward.judges == (VERIFIER,)
    assert artifact.content.card["repeat_sd"] > 0
    other = type(artifact).of(artifact.content.model_copy(update={"source": {"by": "hand"}}))
    records = tmp_path / "deployments"
    for deployable in (artifact, other, other):
        deploy(deployable, "prod", "me", records, source=path if deployable == artifact else None)
    entries = read_record("prod", records)
    previous = [entry["previous"] for entry in entries]
    assert previous == [None, *[artifact.digest_of_content] * 2], "also when deployed twice"
    assert deployed("prod", records) == other
    assert rollback("prod", "me", records)["artifact_id"] == artifact.artifact_id
    assert deployed("prod", records) == artifact
    lineage = Lineage([records])
    assert {statement.event for statement in lineage.statements.values()} == {"search", "export", "deploy"}
    (fault,) = lineage.faults()
    assert fault.endswith(f"artifact:{other.artifact_id} {other.artifact_id[3:]}, which is not recorded")
    path.unlink()
    shutil.rmtree(store_of(path))
    assert any("rm.json" in fault and fault.endswith("is missing") for fault in Lineage([records]).faults())
    with pytest.raises(BadInput, match="no earlier artifact"):
        rollback("prod", "me", records)
    lines = (records / "prod.jsonl").read_text().splitlines()
    changed = [lines[0], lines[1].replace('"me"', '"you"'), *lines[2:]]
    for content, lacking in (([lines[0], *lines[2:]], 1), (changed, 1), (lines[:-1], 1), ([], len(lines))):
        (records / "prod.jsonl").write_text("".join(f"{line}\n" for line in content))
        with pytest.raises(BadInput, match=f"lacks {lacking} entries"):
            read_record("prod", records)
    (records / "prod.jsonl").write_text("{")
    with pytest.raises(BadInput, match="not JSON"):
        read_record("prod", records)
    with pytest.raises(BadInput, match="cannot be used"):
        deploy(artifact, "../prod", "me", records)


def test_the_commands(finished: Path, tmp_path: Path) -> None:
    def call(*arguments: object) -> Any:
        return CliRunner().invoke(command, [str(argument) for argument in arguments])

    path = tmp_path / "rm.json"
    assert "rm-" in call("export", finished, "--out", path).output
    assert "unchanged" in call("verify", path, finished).output
    assert "it is another" in str(call("verify", finished, "--digest", "0" * 64).exception)
    path.write_text(path.read_text().replace('"votes": 1', '"votes": 2'))
    assert "changed after its export" in str(call("verify", path).exception)
    assert "not both" in str(call("deploy", "--target", "prod").exception)
    result = finished / "search.json"
    result.write_text(result.read_text().replace('"generations": 2', '"generations": 3'))
    assert "it was changed" in str(call("export", finished).exception)
