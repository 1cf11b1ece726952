"""The reader of ReviewBench on files of its shape, in a folder and from a server that answers as the hub does."""

import json
from collections import Counter
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from tests.datasets.sources.reading import hub_of, paths_of
from tests.fixtures import Serve
from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import Row
from truthgym.datasets.openreview import openreview
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
TEXTS = "forum_id conference track title abstract venue decision decision_comment reviews_json markdown"
SCHEMA = pyarrow.schema(
    [("year", pyarrow.int32()), ("num_reviews", pyarrow.int32()), ("authors", pyarrow.list_(pyarrow.string()))]
    + [(name, pyarrow.string()) for name in TEXTS.split()]
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
    (where, row), *_, (_, last) = [placed for placed in read(folder)[0] if placed[1]["venue"] == "ICLR 2021"]
    asked = openreview.parse(where, row)
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
    file = tmp_path / "iclr-00000-of-00001.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"forum_id": ["a"], "year": [2021]}), file)
    with pytest.raises(BadInput, match="lacks the columns decision; give the files of ReviewBench"):
        read(tmp_path)
    file.write_bytes(write(tmp_path / "other" / "whole", PAPERS).read_bytes()[:-300])
    with pytest.raises(BadInput, match=r"iclr-00000-of-00001.parquet cannot be read as parquet .* delete it"):
        read(tmp_path)
    write(file, [paper("a", 2021, "Accept (Oral)"), paper("b", 2021, "Reject", reviews_json='[{"main_review"')])
    with pytest.raises(BadInput, match="row 2: not in the published shape"):
        read(tmp_path)


def test_files_come_from_the_pinned_revision(serve: Serve, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SHARDS", 2)
    server = hub_of(serve, folder, REVISION)
    assert read(server.address)[0] == read(folder)[0]
    assert paths_of(server) == [
        f"/datasets/{REPOSITORY}/resolve/{REVISION}/data/iclr-0000{number}-of-00002.parquet" for number in (0, 1)
    ]
