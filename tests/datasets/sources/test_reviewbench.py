"""The reader of ReviewBench on files of its shape, in a folder and from a server that answers as the hub does."""

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import date
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.openreview import sample_of
from truthgym.datasets.sources import reviewbench as module
from truthgym.datasets.sources.reviewbench import REPOSITORY, REVISION, reviewbench

REVIEW = {
    "review_id": "r1",
    "reviewer": "Reviewer_x",
    "rating": "6: marginally above the acceptance threshold",
    "confidence": "4: You are confident in your assessment, but not absolutely certain.",
    "summary": "",
    "strengths": None,
    "soundness": "",
    "main_review": "The paper trains a small network to sort lists, and it seems sound to me.",
    "rebuttal": "We thank the reviewer, and we are glad that the paper can now be accepted.",
    "was_revised": False,
}
SCHEMA = pyarrow.schema(
    [
        ("forum_id", pyarrow.string()),
        ("conference", pyarrow.string()),
        ("year", pyarrow.int32()),
        ("track", pyarrow.string()),
        ("venue_id", pyarrow.string()),
        ("paper_number", pyarrow.int32()),
        ("title", pyarrow.string()),
        ("abstract", pyarrow.string()),
        ("authors", pyarrow.list_(pyarrow.string())),
        ("venue", pyarrow.string()),
        ("decision", pyarrow.string()),
        ("decision_comment", pyarrow.string()),
        ("num_reviews", pyarrow.int32()),
        ("reviews_json", pyarrow.string()),
        ("markdown", pyarrow.string()),
    ]
)
ENDS = {True: "Accept (Poster)", False: "Reject"}


def paper(identity: str, year: int, decision: str | None, **fields: Any) -> dict[str, Any]:
    return {
        "forum_id": identity,
        "conference": "iclr",
        "year": year,
        "track": "main",
        "title": f"Sorting {identity}",
        "abstract": "We train a small network to sort lists. Code: https://github.com/anna/sorting",
        "authors": ["Anna Author"],
        "venue": f"ICLR {year} poster",
        "decision": decision,
        "decision_comment": "All reviewers recommend that it be accepted.",
        "num_reviews": 1,
        "reviews_json": json.dumps([REVIEW]),
        "markdown": "# Sorting\n\nThe full text.",
    } | fields


PAPERS = [
    *(paper(f"a{number}", 2021, ENDS[number % 3 == 0]) for number in range(12)),
    *(paper(f"b{number}", 2022, ENDS[number % 2 == 0]) for number in range(4)),
    *(paper(f"c{number}", 2025, "Accept (Oral)") for number in range(40)),
    paper("c40", 2025, "Reject"),
    paper("d1", 2021, "Withdrawn"),
    paper("d2", 2021, None),
    paper("d3", 2021, "Reject", abstract=None),
    paper("d4", 2021, "Accept (Oral)", reviews_json=None),
]


def write(path: Path, papers: list[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(papers, schema=SCHEMA), path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write(tmp_path / "files" / "iclr-00000-of-00002.parquet", PAPERS[:9])
    write(tmp_path / "files" / "iclr-00001-of-00002.parquet", PAPERS[9:])
    return tmp_path / "files"


def read(location: object, known_after: date | None = None, **options: Any) -> tuple[list[Row], Counter[str]]:
    skipped: Counter[str] = Counter()
    return list(reviewbench(skipped, known_after, location=str(location), **options)), skipped


def test_years_with_both_outcomes_are_read_and_the_rest_counted(folder: Path) -> None:
    rows, skipped = read(folder)
    assert Counter((row["venue"], row["outcome"]) for _, row in rows) == {
        ("ICLR 2021", "yes"): 5,
        ("ICLR 2021", "no"): 8,
        ("ICLR 2022", "yes"): 2,
        ("ICLR 2022", "no"): 2,
    }
    assert skipped == {
        "of years in which nearly all papers here have one outcome": 41,
        "withdrawn, or with a decision that neither accepts nor rejects": 2,
        "without a title or an abstract": 1,
    }


def test_a_row_is_a_question_whose_evidence_is_reviews_alone(folder: Path) -> None:
    (where, row), *_, (_, last) = [one for one in read(folder)[0] if one[1]["venue"] == "ICLR 2021"]
    asked = sample_of(where, row)
    assert where == "iclr-00000-of-00002.parquet row 1"
    assert (asked.id, asked.target) == ("openreview-a0", "yes")
    assert asked.metadata is not None
    assert asked.metadata["evidence"] == [f"Main review: {REVIEW['main_review']}"]
    assert (asked.metadata["opened_on"], asked.metadata["known_on"]) == ("2020-10-02", "2021-01-12")
    shown = " ".join([str(asked.input), *asked.metadata["evidence"]])
    assert not [word for word in ("Poster", "Oral", "be accepted", "Anna", "github", "The full text") if word in shown]
    assert last["id"] == "openreview-d4"
    assert "reviews" not in last


def test_ratings_are_evidence_where_they_are_asked_for(folder: Path) -> None:
    assert read(folder, ratings=True)[0][0][1]["reviews"][0].startswith("Rating: 6: marginally above")
    with pytest.raises(BadInput, match="ratings=1 cannot be used; give true or false"):
        read(folder, ratings=1)


def test_years_that_were_decided_before_are_passed_over(folder: Path) -> None:
    rows, skipped = read(folder, date(2021, 6, 1))
    assert {row["venue"] for _, row in rows} == {"ICLR 2022"}
    assert skipped["known by 2021-06-01"] == 14


def test_files_that_are_not_of_the_set_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no .parquet file; give one that has, or omit location"):
        read(tmp_path)
    file = tmp_path / "iclr-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"forum_id": ["a"], "year": [2021]}), file)
    with pytest.raises(BadInput, match="lacks the columns decision; give the files of ReviewBench"):
        read(tmp_path)
    file.write_bytes(write(tmp_path / "other" / "whole", PAPERS).read_bytes()[:-300])
    with pytest.raises(BadInput, match=r"iclr-00000-of-00001.parquet cannot be read as parquet .* delete it"):
        read(tmp_path)
    write(file, [paper("a", 2021, "Accept (Oral)"), paper("b", 2021, "Reject", reviews_json='[{"main_review"')])
    with pytest.raises(BadInput, match=r"row 2, column reviews_json: not a JSON list of reviews \(JSONDecodeError"):
        read(tmp_path)
    write(file, [paper("a", 2021, "Accept (Oral)"), paper("b", 2021, "Reject", reviews_json='"none"')])
    with pytest.raises(BadInput, match="row 2, column reviews_json: not a JSON list of reviews"):
        read(tmp_path)


Hub = Callable[[Callable[[str], tuple[int, bytes, int | None]]], tuple[str, list[str]]]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Answer as the hub does. Takes what is held at a path: status, content, and the length that is promised."""
    started = []
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr("time.sleep", lambda _: None)

    def start(held: Callable[[str], tuple[int, bytes, int | None]]) -> tuple[str, list[str]]:
        asked: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.answer(b"")

            def do_GET(self) -> None:
                asked.append(self.path)
                self.answer(held(self.path)[1])

            def answer(self, body: bytes) -> None:
                status, content, promised = held(self.path)
                self.send_response(status)
                self.send_header("ETag", f'"{sha256(content).hexdigest()}"')
                self.send_header("X-Repo-Commit", REVISION)
                self.send_header("Content-Length", str(promised or len(content)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None: ...

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
        started.append(server)
        return f"http://127.0.0.1:{server.server_port}", asked

    yield start
    for server in started:
        server.shutdown()
        server.server_close()


def test_files_are_downloaded_once_at_the_pinned_revision(
    hub: Hub, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHARDS", 2)
    address, asked = hub(lambda path: (200, (folder / path.rpartition("/")[2]).read_bytes(), None))
    assert read(address)[0] == read(folder)[0]
    assert asked == [
        f"/datasets/{REPOSITORY}/resolve/{REVISION}/data/iclr-0000{number}-of-00002.parquet" for number in (0, 1)
    ]
    read(address)
    assert len(asked) == 2, "what has come is kept"


@pytest.mark.parametrize(
    ("status", "content", "promised"),
    [(404, b"Entry not found", None), (500, b"<html>down</html>", None), (200, b"PAR1 and a bit", 5000)],
    ids=["not found", "down", "cut off"],
)
def test_what_cannot_be_downloaded_is_named_with_the_way_out(
    hub: Hub, status: int, content: bytes, promised: int | None
) -> None:
    with pytest.raises(BadInput) as refused:
        read(hub(lambda _: (status, content, promised))[0])
    assert f"data/iclr-00000-of-00005.parquet of {REPOSITORY} at {REVISION} cannot be downloaded" in str(refused.value)
    assert 'use source="bundled"' in str(refused.value)


def test_without_a_network_the_way_out_is_named(hub: Hub) -> None:
    with pytest.raises(BadInput, match=r"cannot be downloaded .* check the network"):
        read("http://127.0.0.1:9")
