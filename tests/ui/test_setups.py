import runpy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import inspect_ai
import pytest
from inspect_ai._cli import eval as inspect_cli

from truthgym.datasets.errors import BadInput
from truthgym.ui.forms.commands import FRESH, VERBS, check_words, command_of, train_options
from truthgym.ui.setups import Setup, free_name, names, read, save, setup_of

FULL = {
    "verb": ["eval"],
    "tasks": ["truthgym/forecasting", "truthgym/urns"],
    "T n": ["20"],
    "T": ["split=test"],
    "solvers": ["truthgym/chain_of_thought"],
    "S truthgym/chain_of_thought steps": ["4"],
    "paradigms": ["brier", "martingale"],
    "P martingale per": ["step"],
    "models": ["reference/bayesian, reference/random"],
    "M": ["seed=1\nnoise=0.1"],
    "role judge": ["reference/judge"],
    "role debater_a": ["reference/bayesian, reference/random"],
    "--limit": ["3-7"],
    "--epochs": ["2"],
    "--temperature": ["0.5"],
    "--max-tokens": ["100"],
    "--system-message": ['Say """yes" or \\no and é.'],
}
COMPOSED: dict[str, dict[str, list[str]]] = {
    "eval": FULL,
    "score": {"log_file": ["logs/a.eval"], "--scorer": ["truthgym/martingale"], "A per": ["step"],
              "--model-role": ["judge=reference/judge"], "--action": ["append"], "--overwrite": ["true"]},
    "convert": {"logs": ["logs/a\nlogs/b"], "--to": ["preference"], "--margin": ["-0.5"], "--all": ["true"]},
    "train": {"method": ["sft"], "--model_name_or_path": ["trained/x"], "--dataset_name": ["data/x"],
              "more": ["--max_steps 3 --report_to none"]},
    "loop": {"--model_name_or_path": ["trained/x"], "--task": ["truthgym/urns\ntruthgym/testimony"],
             "--task_args": ["{n: 20}"], "training": ["--max_steps 3"]},
    "report": {"logs": ["logs"], "--only": ["health\ncost"], "-A": ["performance.x=size"], "--bundle": ["true"]},
    "sweep": {"command": ["setups/a.py --seed 'a b'"], "--workers": ["2"], "--on": ["local"]},
}  # fmt: skip


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_composes_a_command_that_its_own_parser_accepts(verb: str) -> None:
    [words] = setup_of({"verb": [verb], **COMPOSED[verb]}, "x").commands().values()
    assert tuple(words[:2]) == VERBS[verb]
    context = command_of(*VERBS[verb]).make_context("x", list(words[2:]))
    sources = {name: context.get_parameter_source(name).name for name in context.params}  # type: ignore[union-attr]
    fields = {key for key in COMPOSED[verb] if key.startswith("--")}
    assert "COMMANDLINE" in sources.values()
    for key in () if verb == "train" else fields:
        name = next(param.name for param in command_of(*VERBS[verb]).params if key in param.opts)
        assert sources[str(name)] == "COMMANDLINE", key
    check_words(verb, words[2:])


def test_a_train_command_is_what_the_trainers_parser_takes() -> None:
    from truthgym.training.trainers.options import parse_options

    for method in ("sft", "grpo", "few_shot", "reinforcement"):
        options = train_options(method)
        assert options[0].name in ("--config", "--model_name_or_path")
        assert all(option.help for option in options)
    words = setup_of({"verb": ["train"], **COMPOSED["train"]}, "x").commands()[""]
    parsed = parse_options(words[2], words[3:])
    assert (parsed.model_name_or_path, parsed.dataset_name, parsed.max_steps) == ("trained/x", "data/x", 3)


def test_words_are_kept_apart_and_values_are_never_options() -> None:
    words = setup_of({"verb": ["convert"], **COMPOSED["convert"]}, "x").commands()[""]
    assert words == ["truthgym", "convert", "logs/a", "logs/b", "--to", "preference", "--out", "data/x", "--all",
                     "--margin=-0.5"]  # fmt: skip
    sweep = setup_of({"verb": ["sweep"], **COMPOSED["sweep"]}, "x").commands()[""]
    assert sweep[-3:] == ["setups/a.py", "--seed", "a b"]
    with pytest.raises(BadInput, match=r"'--out=/etc' would be an option"):
        setup_of({"verb": ["convert"], "logs": ["--out=/etc"], "--to": ["sft"]}, "x").commands()
    with pytest.raises(BadInput, match="'--env' would be an option"):
        setup_of({"verb": ["eval"], "tasks": ["--env"]}, "x").commands()


def test_several_modes_are_one_command_each_in_folders_of_their_own() -> None:
    setup = setup_of(FULL | {"solvers": ["truthgym/direct", "truthgym/chain_of_thought"]}, "x")
    commands = setup.commands()
    assert list(commands) == ["direct", "chain_of_thought"]
    assert commands["direct"][-1] == "logs/x/direct"
    assert "steps=4" not in commands["direct"]
    assert "steps=4" in commands["chain_of_thought"]
    assert setup.script().count("eval_set(") == 2


def plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `eval_set` in a form that can be compared, without those left at None or at a default."""
    values = {key: value for key, value in arguments.items() if value not in (None, {}, [])}
    if "epochs" in values:
        values["epochs"] = getattr(values["epochs"], "epochs", values["epochs"])
    if isinstance(values.get("model"), str):
        values["model"] = values["model"].split(",")
    return values


def test_the_script_calls_eval_set_as_the_command_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[dict[str, Any]] = []

    def record(tasks: object = None, **sources: Any) -> tuple[bool, list[Any]]:
        calls.append({"tasks": tasks} | sources)
        return True, []

    monkeypatch.setattr(inspect_cli, "eval_set", record)
    monkeypatch.setattr(inspect_ai, "eval_set", record)
    setup = setup_of(FULL | {"T": ["known_after=2026-06-01"]}, "x")
    words = setup.commands()[""]
    command_of("inspect", "eval-set").main(list(words[2:]), standalone_mode=False)
    runpy.run_path(str(save(tmp_path, setup)))
    by_command, by_script = map(plain, calls)
    assert by_script.pop("display") == "plain"  # a setting of the process, not of the call
    assert {key: by_command[key] for key in by_script} == by_script
    others = by_command.keys() - by_script.keys()
    switched_off = {"log_level", "log_level_transcript", "score", "retry_cleanup", "incomplete_action"}
    defaults = command_of("inspect", "eval-set").make_context("x", ["truthgym/urns"]).params
    for key in others - switched_off:
        assert not by_command[key] or by_command[key] == defaults.get(key), key


@pytest.mark.parametrize("verb", VERBS)
def test_what_is_saved_is_read_back(verb: str, tmp_path: Path) -> None:
    setup = setup_of({"verb": [verb], **COMPOSED[verb]}, "mine")
    path = save(tmp_path, setup)
    assert path == tmp_path / "setups" / "mine.py"
    assert read(tmp_path, "mine") == (setup, "")
    page = {"name": ["x"], "opened": ["y"], "effect": ["0.1"], "T n": [""]}
    assert set(setup_of({"verb": ["eval"], **page, **FRESH["eval"]}).fields) == {"verb", "tasks", "models"}
    compile(path.read_text(), "mine.py", "exec")


def test_another_setup_is_not_replaced_unless_asked(tmp_path: Path) -> None:
    save(tmp_path, setup_of(FULL, "x"))
    other = setup_of(FULL | {"T n": ["30"]}, "x")
    assert free_name(tmp_path, setup_of(FULL, "x")).name == "x"
    assert free_name(tmp_path, other).name == "x-2"
    assert free_name(tmp_path, other, opened="x") == free_name(tmp_path, other, replaces="x") == other
    save(tmp_path, other)
    assert read(tmp_path, "x")[0] == other
    assert names(tmp_path) == ["x"]


def test_a_file_that_was_changed_by_hand_is_said_to_be(tmp_path: Path) -> None:
    path = save(tmp_path, setup_of(FULL, "x"))
    path.write_text(path.read_text().replace("epochs=2", "epochs=3"))
    assert "changed by hand" in read(tmp_path, "x")[1]


@pytest.mark.parametrize("text", ["print(1)\n", '"""Mine."""\n', "x = (\n", '"""Setup of `truthgym ui`\n\n{"""\n'])
def test_a_script_of_someone_else_is_no_setup(text: str, tmp_path: Path) -> None:
    (tmp_path / "setups").mkdir()
    (tmp_path / "setups" / "own.py").write_text(text)
    with pytest.raises(BadInput, match="is no setup of this page"):
        read(tmp_path, "own")


@pytest.mark.parametrize("name", ["../x", "", ".x", "x" * 65, "a b", "ä"])
def test_a_name_is_never_a_path(name: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be called"):
        read(tmp_path, name)
    with pytest.raises(BadInput, match="cannot be called"):
        save(tmp_path, Setup(name, {"verb": ["report"]}))
