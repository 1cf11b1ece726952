"""The parts of the data mix study that train no model."""

import json
import math
from argparse import Namespace
from collections import Counter
from pathlib import Path

import pytest

from examples import data_mixes
from truthgym.datasets.errors import BadInput

SOURCES = {"direct": ["d1", "d2", "d3"], "revised": ["s1", "s2", "s3"], "react": []}


def test_a_mix_has_its_ratio_and_number_of_rows() -> None:
    drawn = data_mixes.mixed(SOURCES, (2, 1, 0), 7, 0)
    assert Counter(row[0] for row in drawn) == {"d": 5, "s": 2}
    assert {row: number for row, number in Counter(drawn).items() if row[0] == "d"}.keys() == {"d1", "d2", "d3"}
    assert drawn == data_mixes.mixed(SOURCES, (2, 1, 0), 7, 0) != data_mixes.mixed(SOURCES, (2, 1, 0), 7, 1)


@pytest.mark.parametrize("mode", ["revised", "react"])
def test_a_source_teaches_the_answer_alone(tmp_path: Path, mode: str) -> None:
    given = Namespace(out=tmp_path, task="truthgym/urns", task_args={}, n=2, epochs=1, display="log")
    taught = [json.loads(row) for row in data_mixes.taught(given, mode, 0)]
    assert len(taught) == 2
    for row in taught:
        assert [message["role"] for message in row["prompt"]][-1] == "user"
        assert row["completion"][0]["content"].startswith(r"\finalBeliefProb{")
        assert "Criticise" not in json.dumps(row)


@pytest.mark.parametrize("ratio", [(1, 1), (0, 0, 0), (-1, 1, 1)])
def test_a_ratio_that_cannot_be_used(ratio: tuple[int, ...]) -> None:
    with pytest.raises(BadInput, match="give 3 parts, one of them above 0"):
        data_mixes.mixed(SOURCES, ratio, 6, 0)


def test_a_source_without_rows() -> None:
    with pytest.raises(BadInput, match="react has no row, and the ratio"):
        data_mixes.mixed(SOURCES, (1, 1, 1), 6, 0)


def test_the_table_marks_what_no_other_ratio_beats() -> None:
    seeds = [{"base": [0.1, 0.1], "1:0:0": [0.2, 0.4 + e], "0:1:0": [0.3, 0.4 - e], "0:0:1": [0.4, 0.3]}
             for e in (-0.1, 0.0, 0.1)]  # fmt: skip
    rows = {row[0]: row[1:] for row in data_mixes.table(seeds)}
    assert [name for name, row in rows.items() if row[-1] == "yes"] == ["1:0:0", "0:0:1"], "the base is no ratio"
    half = 4.3026527 * 0.1 / math.sqrt(3)  # Student's t with 2 degrees of freedom, sd 0.1
    assert rows["1:0:0"][1] == f"0.4000 [{0.4 - half:.4f}, {0.4 + half:.4f}]"
