"""Public series: writes the questions of `forecasting_series.jsonl` from facts about series that resolved in 2026.

    python -m studies.bundles.public_series FACTS datasets/forecasting_series.jsonl

FACTS is a .jsonl file with a row for each resolved question of ForecastBench on a data series: `source` (yfinance,
fred, dbnomics or wikipedia), `series`, `url`, `asked_on`, `value` and `value_on` (the last value known when the
question was set), `resolves_on`, `outcome` (0 or 1), and two texts of ForecastBench, of which names alone are taken:
`background` (of a company) and `value_is` (of a weather station, a chess player, a disease, a swimming record).

Only facts carry over: every sentence is ours. Questions are drawn by a hash, and the wordings of a kind take turns, so
that neither depends on outcomes.
"""

import json
import re
import sys
from collections.abc import Iterable, Mapping
from datetime import date, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any
from unicodedata import normalize

from truthgym.datasets.loading.row_files import read_rows

Fact = Mapping[str, Any]
TAKEN = {
    "share prices": 99,
    "economic series": 87,
    "temperatures": 48,
    "chess rankings": 30,
    "chess ratings": 8,
    "vaccines": 8,
    "swimming records": 4,
}
"""Questions of each kind: at most one on a series, and one on a chess player."""
LEFT_OUT = ("Desmodesmus infection", "Zeaspora", "Marignane")
"""Diseases that the encyclopedia lists and medicine hardly knows, and a station whose values stood still."""
LAG = timedelta(days=14)
"""Time in which the outcome of the later day is surely public."""
WORDS = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
"""By kind `questions` (each with its proposition), `backgrounds` and `criteria`; by code what a series of FRED measures
(`economic`, with the unit; none is published two weeks late) and a station of Météo-France that needs more than a name
(`places`); and last names of the chess players whose ranking is that among women."""
WHERE = {"yfinance": "Yahoo Finance", "fred": "FRED", "dbnomics": "DBnomics", "wikipedia": "Wikipedia"}
KINDS = {"yfinance": "share prices", "fred": "economic series", "dbnomics": "temperatures"}
COMPANY = re.compile(
    r", (?:together|through|an?|one|headquartered)\b| \(| (?:operates|provides|engages|designs|develops|manufactures"
    r"|offers|distributes|discovers|produces|delivers|supplies|builds|is)\b"
)


def rows(facts: Iterable[Fact]) -> list[dict[str, Any]]:
    """The questions of `forecasting_series.jsonl`, in the order of the day on which they are asked."""
    facts = sorted(facts, key=_hash)
    values: dict[tuple[str, str], dict[str, str]] = {}
    for fact in facts:
        values.setdefault((fact["source"], fact["series"]), {})[fact["value_on"]] = fact["value"]
    taken: dict[str, list[Fact]] = {kind: [] for kind in TAKEN}
    seen: set[str] = set()
    for fact in sorted(facts, key=lambda fact: list(TAKEN).index(_kind(fact))):  # stable: in the order of the hash
        name, code = _named(fact)
        series, kind = fact["series"], _kind(fact)
        player = name if kind.startswith("chess") else series
        unnamed = kind == "economic series" and code not in WORDS["economic"]
        if len(taken[kind]) < TAKEN[kind] and not {series, player} & seen and name not in LEFT_OUT and not unnamed:
            taken[kind].append(fact)
            seen |= {series, player}
    made = [
        _row(kind, fact, values[fact["source"], fact["series"]], turn)
        for kind in TAKEN
        for turn, fact in enumerate(sorted(taken[kind], key=lambda fact: str(fact["asked_on"])))
    ]
    made.sort(key=lambda row: (row["opened_on"], row["id"]))
    for row in made:
        past = [r["outcome"] for r in made if r["field"] == row["field"] and _public_on(r) < row["opened_on"]]
        row["crowd"] = round((past.count("yes") + 1) / (len(past) + 2), 3)
    return made


def _row(kind: str, fact: Fact, values: Mapping[str, str], turn: int) -> dict[str, Any]:
    """A question, from the values by day and how many questions of the kind come before, which decides the wording."""
    name, code = _named(fact)
    turn, first = divmod(turn, len(WORDS["questions"][kind]))
    turn, second = divmod(turn, len(WORDS["backgrounds"][kind]))
    a, r, on = fact["asked_on"], fact["resolves_on"], fact["value_on"]
    earlier = sorted((day for day in values if day < on), reverse=True)[:3]
    table = "FIDE's ranking of women" if name.endswith(tuple(WORDS["women"])) else "FIDE's ranking"
    unit = WORDS["economic"][code][1] if kind == "economic series" else ""
    fields = {
        "name": name,
        "code": code,
        "a": a,
        "r": r,
        "on": on,
        "value": _number(fact["value"]),
        "unit": unit,
        "table": table,
    }
    question, proposition = (text.format(**fields) for text in WORDS["questions"][kind][first])
    background = WORDS["backgrounds"][kind][second].format(**fields)
    if earlier and kind not in ("vaccines", "swimming records"):
        background += f" Before: {', '.join(f'{_number(values[day])} as of {day}' for day in earlier)}."
    plain = normalize("NFKD", f"{kind} {code if kind in KINDS.values() else name}".lower()).encode("ascii", "ignore")
    slug = re.sub(r"[^a-z0-9]+", "-", plain.decode()).strip("-")
    return {
        "id": f"{slug}-{a}-{r}",
        "question": question,
        "proposition": proposition,
        "background": background,
        "criteria": WORDS["criteria"][kind][turn % len(WORDS["criteria"][kind])],
        "opened_on": a,
        "known_on": r,
        "outcome": "yes" if fact["outcome"] else "no",
        "event": _event(kind, fact, unit),
        "field": kind,
        "recorded": f"{WHERE[fact['source']]}, {fact['url']}, value of {r}; ForecastBench, resolution set of {a}",
    }


def _public_on(row: Mapping[str, Any]) -> str:
    return (date.fromisoformat(row["known_on"]) + LAG).isoformat()


def _event(kind: str, fact: Fact, unit: str) -> str:
    """What moves together between the same two days. Diseases and records do not."""
    if kind in ("vaccines", "swimming records"):
        return f"forecastbench-{fact['source']}-{fact['series']}"
    family = kind.partition(" ")[0] if kind.startswith("chess") else kind
    if kind == "economic series":
        yields = ("percent", "percentage points", "index points")
        balances = unit.startswith("m") or unit == "billion US dollars"
        family = "yields" if unit in yields else "balances" if balances else "prices"
    elif kind == "temperatures":  # stations of a region share the first digits of their numbers
        family += f" {fact['series'].split('.')[1][:2]}"
    return f"{family} {fact['asked_on']} to {fact['resolves_on']}"


def _kind(fact: Fact) -> str:
    if fact["source"] in KINDS:
        return KINDS[fact["source"]]
    value_is = fact["value_is"]
    if value_is.endswith("ELO rating."):
        return "chess ratings"
    return (
        "chess rankings"
        if value_is.endswith("ranking.")
        else "vaccines"
        if "accine" in value_is
        else "swimming records"
    )


def _named(fact: Fact) -> tuple[str, str]:
    """The name that stands in the wordings, and the code or the swimming event."""
    kind, value_is, series = _kind(fact), fact["value_is"], fact["series"]
    if kind == "share prices":
        return COMPANY.split(fact["background"])[0].rstrip(","), series
    if kind == "economic series":
        return WORDS["economic"].get(series, ("", ""))[0], series
    if kind == "temperatures":
        number = series.split(".")[1]
        return WORDS["places"].get(number, value_is.split(" station at ")[1].rstrip(".")), number
    if kind == "swimming records":
        name, event = value_is.rstrip(".").split(" is a record holder in the ")
        return name, event.replace("m ", "-metre ", 1)
    if kind == "vaccines":
        return value_is.removeprefix("Vaccine status for ").split(". 'No'")[0], series
    return value_is.rpartition("'s ")[0], series


def _hash(fact: Fact) -> bytes:
    return sha256("/".join(fact[name] for name in ("source", "series", "asked_on", "resolves_on")).encode()).digest()


def _number(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    return f"{number:,.0f}" if abs(number) >= 10_000 and number == round(number) else f"{number:.10g}"


if __name__ == "__main__":
    made = rows(row for _, row in read_rows(Path(sys.argv[1])))
    Path(sys.argv[2]).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in made), encoding="utf-8")
