"""One fine-tuning job, at both providers: from a dataset to a card, watched again, and what is refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.training.providers.conftest import MakeSpec, OpenAIServer, Train, question, reply
from truthgym.datasets.errors import BadInput
from truthgym.training.providers.provider import JobSpec
from truthgym.training.trainers.model_card import read_card


def test_sft_from_a_dataset_to_a_card(server: Any, make_spec: MakeSpec, train: Train) -> None:
    spec = make_spec(options={"seed": 3}, suffix="truth")
    jobs: list[str] = []
    folder, printed = train(spec, lambda job: not jobs.append(job))  # type: ignore[func-returns-value]
    assert "10 train rows, 3 validation rows" in jobs[0]
    assert (server.jobs[0]["model"], server.jobs[0]["suffix"]) == (server.model, "truth")
    sent = [{"role": line["role"], "content": line["content"]} for line in server.lines()[0]["messages"]]
    assert sent == [*question(0), *reply("Yes.")]
    assert set(server.lines()[0]) == {"messages"}  # nothing of the log
    assert len(server.lines(split="validation_file")) == 3
    card = read_card(folder)
    assert card.model == server.trained
    assert card.config["n_epochs"] == 2
    assert card.dataset_facts["logs"] == [{"log": "a.eval", "sha256": "0"}]
    assert [(row["step"], row["loss"], row.get("eval_loss")) for row in card.curve] == [(1, 1.5, None), (2, 0.75, 0.9)]
    assert f"inspect eval truthgym/urns --model {server.trained}" in (folder / "README.md").read_text()
    assert printed[1:3] == ["Created", "Started"]
    requests = len(server.requests)
    again, printed = train(spec)
    assert (again, len(server.requests)) == (folder, requests)
    assert "already trained" in printed[0]


def test_the_same_command_watches_the_job_of_the_folder(server: Any, make_spec: MakeSpec, train: Train) -> None:
    first, _ = train(make_spec(), wait=False)
    assert json.loads((first / "job.json").read_text())["id"] == server.jobs[0]["id"]
    assert not (first / "README.md").exists()
    folder, _ = train(make_spec(), lambda job: pytest.fail("asked again"))
    assert folder == first
    assert len(server.jobs) == 1
    assert read_card(folder).model == server.trained


def test_a_status_that_cannot_be_had_is_requested_again(server: Any, make_spec: MakeSpec, train: Train) -> None:
    folder, _ = train(make_spec(), wait=False)
    path = f"GET{server.jobs_path.removeprefix('POST')}/{server.jobs[0]['id']}"
    server.errors[path] = [500] * 4
    _, printed = train(make_spec())
    assert any("cannot be reached (" in line and "Server error" in line for line in printed)
    assert read_card(folder).model == server.trained


def test_a_refusal_is_one_error_and_submits_nothing(server: Any, make_spec: MakeSpec, train: Train) -> None:
    server.error["message"] = "Invalid file format."
    refusals = [(server.files_path, 400, "refused the .*"), (server.jobs_path, 400, "refused the job")]
    for path, status, problem in [*refusals, (server.jobs_path, 429, "is busy or cannot be reached for the job")]:
        server.errors[path] = [status]
        before = server.requests.count(path)
        with pytest.raises(BadInput, match=f"{problem}: .*Invalid file format"):
            train(make_spec())
        assert not server.jobs
        assert server.requests.count(path) == before + 1, "a retry could create a second job"
    folder, _ = train(make_spec())
    assert read_card(folder).model == server.trained


def test_a_failed_job_is_reported_and_replaced_on_request(server: Any, make_spec: MakeSpec, train: Train) -> None:
    end, events = server.end, list(getattr(server, "events", []))
    server.fail()
    for _ in range(2):
        with pytest.raises(BadInput, match=r"Row 3 is bad.*--overwrite"):
            train(make_spec())
    assert len(server.jobs) == 1
    server.end, server.events = end, events
    folder, _ = train(make_spec(), overwrite=True)
    assert len(server.jobs) == 2
    assert read_card(folder).model == server.trained


def test_a_running_job_is_not_replaced(server: Any, make_spec: MakeSpec, train: Train) -> None:
    server.end = {"status": "running"}
    train(make_spec(), wait=False)
    with pytest.raises(BadInput, match=f"{server.jobs[0]['id']} is still running; cancel it"):
        train(make_spec(), overwrite=True)
    assert len(server.jobs) == 1


def test_declining_sends_nothing(server: Any, make_spec: MakeSpec, train: Train) -> None:
    assert train(make_spec(), lambda job: False)[0] is None
    assert server.requests == []
    folder, _ = train(make_spec())
    assert train(make_spec(), lambda job: False, overwrite=True)[0] is None
    assert read_card(folder).model == server.trained  # declining to train again keeps the card


def test_two_commands_on_one_folder(server: Any, make_spec: MakeSpec, train: Train) -> None:
    def confirm(job: str) -> bool:
        with pytest.raises(BadInput, match="trained"):
            train(make_spec())
        return True

    train(make_spec(), confirm)
    assert len(server.jobs) == 1


def test_the_key_is_needed_and_not_shown(
    server: Any, make_spec: MakeSpec, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.errors[server.jobs_path] = [401]
    with pytest.raises(BadInput) as error:
        train(make_spec())
    folder, printed = train(make_spec())
    texts = [path.read_text() for path in folder.rglob("*") if path.is_file()]
    assert not [text for text in [str(error.value), *printed, *texts] if "sk-loopback" in text]
    requests, name = len(server.requests), f"{server.provider.upper()}_API_KEY"
    monkeypatch.delenv(name)
    with pytest.raises(BadInput, match=f"Set {name}"):
        train(make_spec(suffix="other"))
    assert len(server.requests) == requests


@pytest.mark.parametrize(
    ("method", "old", "new", "message"),
    [
        ("sft", '"split": "train"', '"split": "test"', "line 1: from the test split"),
        ("sft", '"prompt"', '"question"', "line 1: not a row for sft"),
        ("sft", "{", "{]", "line 1: not JSON"),
        ("dpo", '"No."', '"Yes."', "line 1: chosen and rejected are the same"),
    ],
)
def test_rows_that_cannot_be_sent(
    server: Any, make_spec: MakeSpec, train: Train, method: str, old: str, new: str, message: str
) -> None:
    spec = make_spec(method)
    path = spec.dataset / "train.jsonl"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BadInput, match=message):
        train(spec)
    assert server.requests == []


def test_datasets_that_cannot_be_sent(server: Any, make_spec: MakeSpec, train: Train, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="9 rows, but providers need at least 10"):
        train(make_spec(rows=9))
    with pytest.raises(BadInput, match="kind preference, but sft needs kind sft"):
        train(JobSpec("sft", server.model, make_spec("dpo").dataset))
    with pytest.raises(BadInput, match="nowhere does not exist"):
        train(JobSpec("sft", server.model, tmp_path / "nowhere"))
    spec = make_spec()
    for split in ("train", "validation"):
        (spec.dataset / f"{split}.jsonl").rename(spec.dataset / f"{split}.parquet")
    with pytest.raises(BadInput, match="--file-format jsonl"):
        train(spec)
    assert server.requests == []


@pytest.mark.parametrize("server", [OpenAIServer], indirect=True)
def test_a_dataset_of_kind_openai_is_sent_as_it_is(server: Any, make_spec: MakeSpec, train: Train) -> None:
    spec = make_spec()
    (spec.dataset / "README.md").write_text("---\ntruthgym: {kind: openai}\n---\n")
    lines = [{"messages": [*question(i), *reply("Yes.")]} for i in range(10)]
    (spec.dataset / "train.jsonl").write_text("\n".join(map(json.dumps, lines)))
    train(spec)
    assert [[message["content"] for message in line["messages"]] for line in server.lines()] == [
        ["Be calibrated.", f"Is {i} even?", "Yes."] for i in range(10)
    ]
    with pytest.raises(BadInput, match="not a row for dpo"):
        train(JobSpec("dpo", server.model, spec.dataset))
