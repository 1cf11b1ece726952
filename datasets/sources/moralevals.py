"""MoralChoice, and the three sets that ProgressGym scores: questionnaires of the progress tasks."""

import csv
from collections import Counter
from collections.abc import Callable, Iterator
from logging import getLogger
from pathlib import Path

from inspect_ai.util import warn_once

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.download import cache, download
from truthgym.datasets.loading.row_files import Row

logger = getLogger(__name__)

Upholds = Callable[[dict[str, str]], list[list[str]]]
"""From a row to the dimensions that each option upholds."""

REVISION = "871e2bd8e7b3de48f129f245c5fbabb2515b1a0a"
"""Of https://github.com/PKU-Alignment/ProgressGym. Its `final.csv` files are what it scores. The dataset of the same
name on the Hugging Face Hub lacks the dimensions and two of the four options of the worldview items."""
ADDRESS = (
    "https://raw.githubusercontent.com/PKU-Alignment/ProgressGym/{revision}/src/evaluation/raw_dataset/{name}/final.csv"
)
DIGESTS = {
    "moralchoice": "9481b9cb89e844e49dfc6d96bbe3b63f",
    "foundation": "4a2277f4b59b631215b8812ed1bee20f",
    "views": "2b746b1c410120d2c901abd6c7a4f170",
}
"""MD5 of each file at that revision."""
LICENCE = (
    "MoralChoice high-ambiguity scenarios (Scherrer et al. 2023), CC BY 4.0, and ProgressGym's items on moral "
    "foundations and worldviews (Qiu et al. 2024), MIT and CC BY 4.0; "
    f"https://github.com/PKU-Alignment/ProgressGym at {REVISION}."
)
COLUMNS = {
    "death": "kill", "pain": "pain", "disable": "disable", "freedom": "freedom", "pleasure": "pleasure",
    "deceive": "deceive", "cheat": "cheat", "break_promise": "promise", "break_law": "law", "duty": "duty",
}  # fmt: skip
"""The dimension of each column of MoralChoice behind `a1_` and `a2_`."""
VIEWS = [["Traditional"], ["Modern"], ["Post-modern"], ["Integrated"]]
"""The dimension of each option of a worldview item."""
SPELLINGS = {"Purity_Sancity": "Purity_Sanctity"}


def moralchoice(folder: Path | None = None) -> Iterator[Row]:
    """Read MoralChoice's high-ambiguity scenarios as rows of a questionnaire.

    An option upholds a rule if the other one breaks it ("Yes") and it does not. Scenarios that set no rule against
    another action are left out and counted. 97 scenarios repeat the id of another; the later one gets a suffix.
    """

    def upheld(row: dict[str, str], keeps: str, breaks: str) -> list[str]:
        return [d for name, d in COLUMNS.items() if row[breaks + name] == "Yes" and row[keeps + name] != "Yes"]

    rows = _rows("moralchoice", folder)
    yield from _items(rows, 2, lambda row: [upheld(row, "a1_", "a2_"), upheld(row, "a2_", "a1_")])


def moralevals(folder: Path | None = None) -> Iterator[Row]:
    """Read all three sets that ProgressGym scores: MoralChoice, moral foundations (2 options) and worldviews (4)."""
    yield from moralchoice(folder)
    yield from _items(_rows("foundation", folder), 2, lambda row: [[_theme(row)], []])
    views = (item for item in _rows("views", folder) if item[1]["generation_theme"] != "theme")  # a stray header
    yield from _items(views, 4, lambda row: VIEWS)


def _theme(row: dict[str, str]) -> str:
    return SPELLINGS.get(row["generation_theme"], row["generation_theme"])


def _items(rows: Iterator[tuple[str, dict[str, str]]], options: int, upholds: Upholds) -> Iterator[Row]:
    seen: Counter[str] = Counter()
    empty = 0
    for place, row in rows:
        try:
            texts = [row[f"action{i + 1}"].strip() for i in range(options)]
            dimensions, identity, context = upholds(row), row["scenario_id"], row["context"].strip()
        except KeyError as error:
            raise BadInput(f"{place}: the column {error} is missing; remove the file and download it again") from None
        if not any(dimensions) or len(set(texts)) < options:
            empty += 1
            continue
        seen[identity] += 1
        unique = identity if seen[identity] == 1 else f"{identity}-{seen[identity]}"
        yield place, {"id": unique, "context": context, "options": texts, "upholds": dimensions}
    if empty:
        warn_once(logger, f"{place.split()[0]}: left out {empty} items that set no dimension against another option.")


def _rows(name: str, folder: Path | None) -> Iterator[tuple[str, dict[str, str]]]:
    path = (folder or cache("moralevals")) / f"{name}.csv"
    if folder is None:
        download(ADDRESS.format(revision=REVISION, name=name), path, lambda: DIGESTS[name])
        warn_once(logger, LICENCE)
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in enumerate(csv.DictReader(file), start=1):
            yield f"{path.name} row {number}", row
