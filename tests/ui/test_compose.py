import re
import shlex
import subprocess
import sys
from html import unescape
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastapi.testclient import TestClient

from tests.commands import call
from tests.ui.conftest import client_of, kill_all
from truthgym.tasks import __all__ as registered
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.ui import jobs, setups
from truthgym.ui.forms.checks import outside, problems, warnings
from truthgym.ui.forms.commands import VERBS
from truthgym.ui.forms.registry import KEYS, is_set, own_defaults, role_names
from truthgym.ui.pages import compose
from truthgym.ui.pages.compose import cost_commands, run_cost
from truthgym.ui.processes.launcher import RECORD, write

FIRST = {"verb": "eval", "tasks": "truthgym/forecasting", "models": "reference/bayesian"}
FIELDS = {key: [value] for key, value in FIRST.items()}
HTMX = {"hx-request": "true"}


def text_of(text: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", text)).split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_a_form_whose_controls_have_names(verb: str, client: TestClient) -> None:
    text = client.get(f"/?verb={verb}").text
    controls = re.findall(r"<(?:input|select|textarea)\b[^>]*>", text)
    identities = [re.search(r'\bid="([^"]+)"', control) for control in controls if 'type="hidden"' not in control]
    assert all(identities)
    names = [identity[1] for identity in identities if identity and identity[1] != ""]
    assert len(names) == len(set(names))
    for name in names:
        assert f'for="{name}"' in text, name


def test_all_tasks_modes_and_scorers_of_the_registry_can_be_ticked(client: TestClient) -> None:
    text = client.get("/").text
    assert "inspect eval-set truthgym/forecasting --model reference/bayesian --display plain" in text_of(text)
    assert "eval_set( ['truthgym/forecasting'], log_dir='logs/forecasting-bayesian'" in text_of(text)
    ticks = set(re.findall(r'type="checkbox"[^>]*value="(?:truthgym/)?(\w+)"', text))
    parts = {"prepare", "prepare_tools", "label_pair", "predict_answers", "human", "reference"}
    assert ticks >= ({*registered} - parts) | {*SCORER_BY_NAME}


def test_the_preview_follows_the_form_and_shows_the_arguments_of_what_is_ticked(client: TestClient) -> None:
    form = FIRST | {"solvers": "truthgym/chain_of_thought", "paradigms": "martingale", "P martingale per": "step"}
    answer = client.post("/compose?parts=1", data=form, headers=HTMX).text
    assert "<html" not in answer
    assert 'name="S truthgym/chain_of_thought steps"' in answer
    assert 'name="T n"' in answer
    assert "-T 'paradigms={martingale: {per: step}}'" in unescape(answer)
    assert 'name="S truthgym' not in client.post("/compose", data=form, headers=HTMX).text
    typed = FIRST | {"name": "<script>alert(1)</script>", "T n": '"><script>alert(2)</script>'}
    assert "<script>alert" not in client.post("/compose", data=typed).text


VALUES = [
    ({"T n": "forty"}, "n must be at least 1, got 'forty'"),
    ({"T n": "0"}, "n must be at least 1, got 0"),
    ({"T": "n=-3"}, "n must be at least 1, got -3"),
    ({"T n": "forty", "T source": "halawi"}, "n='forty' cannot be used; it must be a valid integer"),
    ({"T split": "tset"}, "Unknown split 'tset'; did you mean 'test'?"),
    ({"T source": "none.jsonl"}, "There is no file none.jsonl"),
    ({"T known_after": "2030-01-01"}, "no question is left"),
    ({"T": "nn=3"}, "Unknown argument of forecasting 'nn'; did you mean 'n'?"),
    (
        {"tasks": "truthgym/urns", "T likelihood_ratio": "0.5"},
        "likelihood_ratio=0.5 cannot be used; it must be greater",
    ),
    ({"paradigms": "martingale", "P martingale per": "stp"}, "per='stp' cannot be used; did you mean 'step'?"),
    ({"solvers": "truthgym/chain_of_thought", "S truthgym/chain_of_thought steps": "four"}, "steps='four' cannot be"),
    ({"solvers": "truthgym/few_shot"}, "source is missing; write -S source=LOG.eval"),
    ({"M": "nois=1"}, "Unknown argument of reference/bayesian 'nois'; did you mean 'noise'?"),
    ({"M": "noise=-1"}, "-M noise=-1 cannot be used"),
    ({"--epochs": "0"}, "--epochs 0 cannot be used; give a number of 1 or more"),
    ({"--temperature": "nan"}, "--temperature nan cannot be used; give a number of 0 to 2"),
    ({"--limit": "7-3"}, "--limit '7-3' cannot be used"),
    ({"--limit": "0"}, "--limit '0' cannot be used"),
    ({"T n": "[" * 200}, "has more than 100 brackets"),
    ({"verb": "report", "logs": "a" * 300}, "File name too long"),
    ({"verb": "report", "logs": "none"}, "There is no none in"),
    ({"verb": "score", "log_file": "logs/x.eval", "--scorer": "truthgym/brier"}, "There is no logs/x.eval in"),
    ({"verb": "score", "log_file": ".", "--scorer": "truthgym/martingale", "A per": "x"}, "per='x' cannot be used"),
]
"""Values that only the task, mode, scorer or agent can judge, with what it says of them."""
BAD = [
    *VALUES,
    ({"tasks": "truthgym/forecastin"}, "There is no task 'truthgym/forecastin'; did you mean 'truthgym/forecasting'?"),
    ({"tasks": ""}, "No task is chosen"),
    ({"tasks": "truthgym/questions"}, "the argument 'source' is missing; add it"),
    ({"models": ""}, "No model is given"),
    ({"models": "gpt-5"}, "The model 'gpt-5' has no provider"),
    ({"T nn": "3"}, "Unknown argument of forecasting 'nn'; did you mean 'n'?"),
    ({"solvers": "truthgym/chain", "S x y": "1"}, "There is no reasoning mode 'truthgym/chain'"),
    ({"solvers": "truthgym/direct", "S truthgym/direct steps": "4"}, "direct: there is no argument 'steps'"),
    ({"paradigms": "qualitative"}, "The scorer qualitative needs a model in the role judge"),
    ({"--epochs": "many"}, "Invalid value for '--epochs': 'many' is not a valid integer"),
    ({"--limit": "ten"}, "--limit 'ten' cannot be used; give a number of samples such as 10"),
    ({"T": "steps"}, "-T steps: write it as NAME=VALUE"),
    ({"other tasks": "mine.py@x"}, "There is no file mine.py"),
    ({"T source": "../other.jsonl"}, "../other.jsonl is outside of"),
    ({"T": "paradigms={x: {file: /etc/passwd}}"}, "/etc/passwd is outside of"),
    ({"T": "paradigms=http://x,/etc/passwd"}, "/etc/passwd is outside of"),
    ({"--model-cost-config": "/root/prices.yaml"}, "/root/prices.yaml is outside of"),
    ({"name": "../x"}, "'../x' is no name of a setup"),
    ({"verb": "convert"}, "Missing argument 'LOGS...'"),
    ({"verb": "convert", "logs": "logs", "--to": "sft", "--out": "/tmp/elsewhere"}, "/tmp/elsewhere is outside of"),
    ({"verb": "train", "method": "sft"}, "--model_name_or_path is empty"),
    ({"verb": "sweep", "command": "setups/x.py 'open"}, "cannot be read as words"),
    ({"verb": "score", "log_file": ".", "--scorer": "truthgym/brier", "A z": "1"}, "there is no argument 'z'"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), BAD)
def test_bad_input_is_one_clear_line_and_nothing_is_lost(
    changed: dict[str, str], message: str, client: TestClient, tmp_path: Path
) -> None:
    form = FIRST | {"--seed": "4711"} | changed
    answer = client.post("/compose", data=form, headers=HTMX)
    assert message in text_of(answer.text)
    assert "<pre" not in answer.text  # no command
    refused = client.post("/launch", data=form)
    assert refused.status_code == 400
    if form["verb"] == "eval":
        assert 'value="4711"' in refused.text
    for value in changed.values():
        assert not value or value in unescape(refused.text)
    assert not [*tmp_path.iterdir()]


def test_the_form_shows_what_the_ticked_tasks_set_themselves(client: TestClient) -> None:
    text = text_of(client.get("/").text.replace("placeholder=", ">"))
    assert "Number of times to repeat dataset" in text
    assert "Number of questions, drawn with the seed. None: all." in text
    assert '"default: 3"' in client.get("/").text
    both = ["truthgym/urns", "truthgym/code_repair"]
    assert own_defaults(both) == {"--epochs": "3 in urns, 1 in code_repair", "--message-limit": "200 in code_repair"}
    ticked = client.post("/compose?parts=1", data=FIRST | {"tasks": both}, headers=HTMX).text
    assert '"default: 3 in urns, 1 in code_repair"' in ticked
    assert "default: each task&#39;s own" in ticked  # of n


def test_a_key_is_never_written_to_a_file(client: TestClient, tmp_path: Path) -> None:
    for field, value in (("M", "api_key=abc"), ("T", "my_api_key=x"), ("--system-message", "sk-" + "a" * 20)):
        refused = client.post("/save", data=FIRST | {field: value})
        assert refused.status_code == 400
        assert "has a key in it" in text_of(refused.text)
        assert not [*tmp_path.iterdir()]


def test_a_model_without_its_key_is_a_warning_that_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    form = FIELDS | {"models": ["openai/gpt-5.4-mini"], "role judge": ["openai-api/my-lab/x"]}
    first, second = warnings(form, tmp_path)
    assert "openai/gpt-5.4-mini needs a key" in first
    assert "OPENAI_API_KEY" in first
    assert "MY_LAB_API_KEY" in second
    assert problems(form, "x", tmp_path) == []
    (tmp_path / ".env").write_text("OPENAI_API_KEY=hunter2hunter2\n")
    assert len(warnings(form, tmp_path)) == 1
    text = client_of(tmp_path).post("/compose", data=FIRST, headers=HTMX).text
    assert "openai (OPENAI_API_KEY)" in text_of(text)
    assert "hunter2" not in text
    assert is_set("OPENAI_API_KEY", tmp_path)


def test_the_variables_are_those_that_inspect_reads() -> None:
    from inspect_ai.model import _providers

    folder = Path(str(_providers.__file__)).parent if _providers.__file__ else Path(_providers.__path__[0])
    for provider, variables in KEYS.items():
        file = folder / f"{provider.replace('-', '_')}.py"
        text = file.read_text()
        by_name = "OpenAICompatibleAPI" in text  # which reads NAME_API_KEY
        assert all(f'"{variable}"' in text or (by_name and variable.endswith("_API_KEY")) for variable in variables), (
            provider
        )


def test_the_roles_are_those_that_scorers_name() -> None:
    for declaration in SCORER_BY_NAME.values():
        assert {*declaration.roles()} <= {*role_names()}


def test_save_open_and_save_again(client: TestClient, tmp_path: Path) -> None:
    form = FIRST | {"name": "mine", "--limit": "5"}
    answer = client.post("/save", data=form)
    assert (answer.status_code, answer.headers["location"]) == (303, "/?setup=mine&saved=1")
    opened = client.get(answer.headers["location"]).text
    assert "Saved as setups/mine.py." in opened
    assert 'name="--limit" value="5"' in opened
    for changed, name in (
        ({"--limit": "6"}, "mine-2"), ({"--limit": "6", "opened": "mine"}, "mine"), ({"--limit": "6"}, "mine"),
        ({"--limit": "7", "replace": "mine"}, "mine"), ({"--limit": "8", "replace": "another"}, "mine-3"),
    ):  # fmt: skip
        shown = text_of(client.post("/compose", data=form | changed, headers=HTMX).text)
        assert f"--log-dir logs/{name} " in shown
        assert client.post("/save", data=form | changed).headers["location"] == f"/?setup={name}&saved=1"
        assert setups.read(tmp_path, name)[0].fields["--limit"] == [changed["--limit"]]


def test_a_mended_form_is_not_refused_and_overwrites_nothing(client: TestClient, tmp_path: Path) -> None:
    """The name of a run that made nothing is free; that of one with logs gets a number, also where it was opened."""
    form = FIRST | {"name": "mine"}
    client.post("/save", data=form | {"--limit": "5"})
    ended = tmp_path / "runs" / "20260101-000000-mine-abcdef"
    ended.mkdir(parents=True)
    write(ended / RECORD, {"name": "mine", "log_dir": "logs/mine", "attempts": [{"command": ["inspect"], "at": 1.0}]})
    mended = form | {"--limit": "6"}
    assert client.post("/save", data=mended).headers["location"] == "/?setup=mine&saved=1"
    log = tmp_path / "logs" / "mine" / "a.eval"
    log.parent.mkdir(parents=True)
    log.touch()
    (tmp_path / "logs" / "bare").mkdir()
    (tmp_path / "logs" / "bare" / "a.eval").touch()
    for changed, name in (
        ({}, "mine"), ({"--limit": "7"}, "mine-2"), ({"--limit": "7", "opened": "mine"}, "mine-2"),
        ({"name": "bare"}, "bare-2"),
    ):  # fmt: skip
        assert client.post("/save", data=mended | changed).headers["location"] == f"/?setup={name}&saved=1"


def test_a_setup_or_verb_that_is_not_there_is_one_line(client: TestClient) -> None:
    assert "There is no setup 'gone'" in text_of(client.get("/?setup=gone").text)
    assert "Unknown verb 'fly'" in text_of(client.get("/?verb=fly").text)
    assert client.get("/?setup=..%2Fx").status_code == 400


def test_the_estimate_is_that_of_truthgym_cost(
    client: TestClient, tmp_path: Path, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    form = FIELDS | {"--limit": ["4"], "--epochs": ["1"], "paradigms": ["brier"], "effect": ["0.05"]}
    several = FIELDS | {"models": ["a/b, c/d"], "solvers": ["truthgym/direct", "truthgym/self_debate"]}
    assert len([*cost_commands(several)]) == 2
    assert len([*cost_commands(several | {"--model-cost-config": ["prices.yaml"]})]) == 4
    [command] = cost_commands(form)
    assert command[:3] == ["truthgym", "cost", "truthgym/forecasting"]
    monkeypatch.setattr(
        subprocess, "run", lambda words, **_: call(*words[1:], environment=environment, folder=tmp_path)
    )
    cost = run_cost(command, tmp_path)
    monkeypatch.setattr(compose, "run_cost", lambda words, folder: cost if words == command else None)
    answer = client.post("/estimate", data={key: values[0] for key, values in form.items()}).text
    assert "4 samples x 1 epochs = 4 answers: 4 calls" in text_of(answer)
    assert '<p class="warning">Too small to detect a difference of 0.05' in answer
    assert "<td>reference/bayesian</td>" in answer


def test_an_estimate_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "the-value-of-it")
    failed = subprocess.CompletedProcess([], 1, "", "n must be at least 1, and the-value-of-it is a key")
    monkeypatch.setattr(subprocess, "run", lambda command, **options: failed)
    cost = run_cost([], tmp_path)
    assert (cost.text, cost.error) == ("", "n must be at least 1, and [SOME_API_KEY] is a key")


def test_what_is_started_is_what_the_page_shows(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[Path, list[str], str]] = []

    def start(folder: Path, command: list[str], name: str, at_once: int) -> SimpleNamespace:
        assert at_once == 2
        started.append((folder, command, name))
        return SimpleNamespace(id=f"run{len(started)}")

    monkeypatch.setattr(jobs, "start", start)
    page = client.post("/compose", data=FIRST | {"name": "one"}, headers=HTMX).text
    answer = client.post("/launch", data=FIRST | {"name": "one"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/runs/run1")
    [(folder, command, name)] = started
    assert (folder, name) == (tmp_path, "one")
    assert unescape(re.findall(r'<pre id="command1"[^>]*>([^<]*)<', page)[0]) == shlex.join(command)
    assert setups.names(tmp_path) == ["one"]
    several = {**FIRST, "name": "two", "solvers": ["truthgym/direct", "truthgym/self_debate"]}
    assert client.post("/launch", data=several).headers["location"] == "/runs"
    assert [name for _, _, name in started[1:]] == ["two-direct", "two-self_debate"]


def test_of_several_modes_none_starts_if_one_cannot(client: TestClient, tmp_path: Path) -> None:
    release = "import pathlib, time\nwhile not pathlib.Path('go').exists(): time.sleep(0.05)"
    busy = jobs.start(tmp_path, [sys.executable, "-c", release], "busy", log_dir="logs/two/self_debate")
    try:
        several = {**FIRST, "name": "two", "solvers": ["truthgym/direct", "truthgym/self_debate"]}
        answer = client.post("/launch", data=several)
        assert answer.status_code == 400
        assert f"The run {busy.id} is in progress and writes to" in text_of(answer.text)
        assert [job.id for job in jobs.jobs(tmp_path)] == [busy.id]
    finally:
        (tmp_path / "go").touch()
        kill_all(tmp_path)


def test_another_training_method_shows_its_own_options(client: TestClient) -> None:
    form = {"verb": "train", "method": "grpo", "--model_name_or_path": "trained/x"}
    text = client.post("/compose?whole=1", data=form, headers=HTMX).text
    assert 'name="--num_generations"' in text
    assert 'value="trained/x"' in text
    assert 'name="--num_generations"' not in client.get("/?verb=train").text


@pytest.mark.parametrize("value", ['"\\x2fetc/passwd"', '{a: ["\\u002e\\u002e/x"]}'])
def test_a_path_written_with_escapes_stays_below_the_folder_too(value: str, tmp_path: Path) -> None:
    assert outside(["-T", f"file={value}"], tmp_path)
    assert outside(["-T", 'file="\\x61/b"'], tmp_path) == []


@pytest.mark.parametrize("path", ["/compose", "/save", "/launch", "/estimate", "/results/report"])
@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("a=1&" * 2001, "2,000 fields or lines; write long lists"),
        ("note=" + "%0Aname%3D1" * 2001, "2,000 fields or lines; write long lists"),
        ("note=" + "\nname: 1" * 2001, "2,000 fields or lines; write long lists"),
        ("log=a%00.eval", "remove %00"),
        ("log=a\0.eval", "remove %00"),
    ],
)
def test_a_form_that_cannot_be_used_is_refused(path: str, body: str, problem: str, client: TestClient) -> None:
    answer = client.post(path, content=body, headers={"content-type": "application/x-www-form-urlencoded"})
    assert answer.status_code == 400
    assert problem in answer.text
