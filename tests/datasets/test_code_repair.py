"""The functions of `code_repair`: what each must return, by another way of finding it, and what the faulty one does."""

import copy
import json
import re
from collections import Counter
from collections.abc import Callable
from fnmatch import fnmatchcase
from itertools import combinations, groupby, pairwise, permutations, product
from os.path import commonprefix
from pathlib import Path
from typing import Any

import pytest

from tests.datasets.test_bundled import HEADINGS
from tests.fixtures import bundled_rows, write_rows
from truthgym.datasets.code_repair import RepairQuestion, code_repair
from truthgym.datasets.errors import BadInput

ROWS = {row["function"]: row for row in bundled_rows("code_repair")}


def settings(text: str) -> dict[str, str]:
    return {m[1].strip(): m[2].strip() for part in text.split(";") if (m := re.fullmatch(r"([^=]*)=(.*)", part, re.S))}


def depth(text: str) -> int:
    levels = [text[:i].count("(") - text[:i].count(")") for i in range(len(text) + 1)]
    return -1 if min(levels) < 0 or levels[-1] else max(levels)


def cut(ranges: list[list[int]], low: int, high: int) -> list[list[int]]:
    kept = [sorted(set(range(*one)) & set(range(low, high))) for one in ranges]
    return [[one[0], one[-1] + 1] for one in kept if one]


def visits(rows: int, columns: int, moves: str) -> list[list[int]]:
    at, seen = 0j, Counter([0j])
    for move in moves:
        there = at + {"R": 1, "L": -1, "D": 1j, "U": -1j}[move]
        if 0 <= there.real < columns and 0 <= there.imag < rows:
            at = there
            seen[at] += 1
    return [[seen[complex(x, y)] for x in range(columns)] for y in range(rows)]


def grouped(words: list[str], groups: dict[str, list[str]] | None = None) -> dict[str, list[str]]:
    every = [*(word for known in (groups or {}).values() for word in known), *words]
    return {word[0]: [other for other in every if other[0] == word[0]] for word in every}


def edited(commands: list[list[Any]]) -> list[Any]:
    done: tuple[Any, ...] = ()
    undone: list[Any] = []
    for command in commands:
        match command:
            case ["add", x]:
                done, undone = (*done, x), []
            case ["undo"] if done:
                undone.append(done[-1])
                done = done[:-1]
            case ["redo"] if undone:
                done = (*done, undone.pop())
    return list(done)


def flat(nested: list[Any], levels: int) -> list[Any]:
    for _ in range(levels):
        nested = [inner for item in nested for inner in (item if isinstance(item, list) else [item])]
    return nested


def paths(edges: list[list[str]], start: str, goal: str) -> list[list[str]]:
    places = {place for edge in edges for place in edge} - {start, goal}
    if start == goal:
        return [[start]]
    tried = ([start, *via, goal] for n in range(len(places) + 1) for via in permutations(places, n))
    return sorted(path for path in tried if all([*step] in edges for step in pairwise(path)))


def runs(values: list[int]) -> list[int]:
    lengths = [len(list(group)) for _, group in groupby(values)]
    starts = [sum(lengths[:i]) for i in range(len(lengths))]
    return max(([s, n] for s, n in zip(starts, lengths, strict=True)), key=lambda run: run[1], default=[0, 0])


def coins(amount: int, values: list[int]) -> int:
    sums, count = {0}, 0
    while amount not in sums and min(sums, default=amount + 1) <= amount and count <= amount:
        sums, count = {total + value for total in sums for value in values}, count + 1
    return count if amount in sums else -1


def climb(values: list[int]) -> int:
    sizes = range(len(values), -1, -1)
    return next(
        n for n in sizes for combination in combinations(values, n) if list(combination) == sorted(set(combination))
    )


def order(needs: dict[str, list[str]]) -> list[str]:
    valid = (permutation for permutation in permutations(sorted(needs)) if all(
        permutation.index(before) < permutation.index(task) for task in needs for before in needs[task]))  # fmt: skip
    return list(next(valid, ()))


def route(roads: list[list[Any]], start: str, goal: str) -> float:
    places = {place for end, other, _ in roads for place in (end, other)} | {start, goal}
    cost = {pair: 0.0 if pair[0] == pair[1] else float("inf") for pair in product(places, repeat=2)}
    for one, other, price in roads:
        cost[one, other] = cost[other, one] = min(price, cost[one, other])
    for via, one, other in product(places, repeat=3):
        cost[one, other] = min(cost[one, other], cost[one, via] + cost[via, other])
    return cost[start, goal] if cost[start, goal] < float("inf") else -1


def breaks(lengths: list[int], width: int) -> int:
    costs = [0] if not lengths else []
    for ends in product([0, 1], repeat=max(len(lengths) - 1, 0)):
        at = [i + 1 for i, end in enumerate(ends) if end]
        lines = [lengths[a:b] for a, b in zip([0, *at], [*at, len(lengths)], strict=True)]
        free = [width - sum(line) - len(line) + 1 for line in lines]
        if lengths and min(free) >= 0:
            costs.append(sum(space**2 for space in free[:-1]))
    return min(costs)


def digits(number: int, base: int) -> list[int]:
    number = abs(number)
    count = next(n for n in range(1, 99) if base**n > number)
    return [number // base**i % base for i in reversed(range(count))]


BY_OTHER_MEANS: dict[str, Callable[..., Any]] = {
    "window_maxima": lambda values, width: [max(values[i - width : i]) for i in range(width, len(values) + 1)],
    "split_blocks": lambda lines: [list(group) for full, group in groupby(lines, lambda s: not s.isspace() and s != "")
                                   if full],
    "read_settings": settings,
    "nesting_depth": depth,
    "clip_ranges": cut,
    "rank_scores": lambda scores: [1 + sum(other > score for other in scores) for score in scores],
    "to_digits": digits,
    "shared_start": commonprefix,
    "count_visits": visits,
    "group_words": grouped,
    "keep_at_most": lambda values, most: [v for i, v in enumerate(values) if values[:i].count(v) < most],
    "edit_list": edited,
    "flatten": flat,
    "simple_paths": paths,
    "longest_run": runs,
    "distinct_in_window": lambda values, span: [len({*values[: i + 1][-span:]}) for i in range(len(values))],
    "fewest_coins": coins,
    "longest_climb": climb,
    "most_at_once": lambda stays: max([sum(a <= t < d for a, d in stays) for t, _ in stays], default=0),
    "order_tasks": order,
    "cheapest_route": route,
    "evaluate": eval,
    "line_breaks": breaks,
    "matches": lambda pattern, text: fnmatchcase(text, pattern),
}  # fmt: skip
"""For each function another one, by brute force or by Python's own means."""


@pytest.mark.parametrize("name", ROWS)
def test_what_is_expected_is_also_found_by_other_means(name: str) -> None:
    for test in ROWS[name]["tests"]:
        assert BY_OTHER_MEANS[name](*copy.deepcopy(test["arguments"])) == test["expected"], test


def passed(name: str, field: str) -> list[bool]:
    row, names, found = ROWS[name], dict[str, Any](), []
    exec(row[field], names)
    for test in row["tests"]:
        arguments = copy.deepcopy(test["arguments"])
        try:
            shown = json.dumps([names[name](*arguments), arguments])
        except RecursionError:
            shown = ""
        found.append(shown == json.dumps([test["expected"], test["arguments"]]))
    return found


@pytest.mark.parametrize("name", ROWS)
def test_the_repaired_function_passes_all_tests_and_the_faulty_one_some(name: str) -> None:
    assert all(passed(name, "fixed"))
    assert 1 <= sum(passed(name, "faulty")) <= len(passed(name, "faulty")) - 2


def test_nothing_that_is_shown_names_the_fault() -> None:
    for row in ROWS.values():
        assert "#" not in row["faulty"]
        assert '"""' not in row["faulty"]
        assert not re.search(r"\b(bug|fault|wrong|fix|TODO|should)\b", row["faulty"] + row["description"], re.I)


def test_the_question_shows_neither_tests_nor_the_repair() -> None:
    for item in code_repair():
        metadata = item.metadata_as(RepairQuestion)
        row = ROWS[metadata.function]
        assert row["faulty"] in item.input
        assert row["fixed"] not in str(item.input) + str(item.metadata)
        assert item.target == ""
        assert not item.files


def test_the_card_counts_what_is_there(root: Path) -> None:
    card = (root / "datasets" / "code_repair.md").read_text()
    assert re.findall(r"^## (.+)$", card, re.M) == HEADINGS
    assert [item.metadata_as(RepairQuestion).tier for item in code_repair(tier=3)] == [3] * 8
    with pytest.raises(BadInput, match="tier=9 is none; give 1, 2 or 3"):
        code_repair(tier=9)
    tiers = Counter(f"of tier {row['tier']}" for row in ROWS.values())
    tests = sum(len(row["tests"]) for row in ROWS.values())
    counts = {name: int(number) for name, number in re.findall(r"^\| (.+?) \| (\d+) \|$", card, re.M)}
    assert counts == {"functions": len(ROWS), **tiers, "hidden tests": tests}
    assert len(ROWS) >= 24


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tier": 4}, "`tier`: 4 cannot be used"),
        ({"faulty": "def f(x:"}, "`faulty` is not Python with a function f"),
        ({"fixed": "def g(x): return x"}, "`fixed` is not Python with a function f"),
        ({"tests": []}, "the field `tests`: [] cannot be used"),
        ({"tests": [{"arguments": 3, "expected": 1}] * 2}, "the field `tests.0.arguments`"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_row_that_cannot_be_used_is_refused(change: dict[str, Any], message: str, tmp_path: Path) -> None:
    good = {"id": "a", "function": "f", "tier": 1, "description": "`f(x)` returns x.", "faulty": "def f(x): return 0"}
    good["tests"] = [{"arguments": [1], "expected": 1}, {"arguments": [2], "expected": 2}]
    with pytest.raises(BadInput) as refused:
        code_repair(write_rows(tmp_path / "mine.jsonl", good, good | {"id": "b"} | change))
    assert "mine.jsonl line 2" in str(refused.value)
    assert message in str(refused.value).replace("\\", "")
