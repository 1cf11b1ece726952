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

from studies.bundles.public_series_names import BN, ECONOMIC, PC, PLACES, PP, WOMEN
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
QUESTIONS = {
    "share prices": (
        ("Will {name} ({code}) close higher on {r} than on {a}?", "{name} ({code}) closes higher on {r} than on {a}."),
        (
            "Will a share of {name} ({code}) be worth more at the close of {r} than at that of {a}?",
            "A share of {name} ({code}) is worth more at the close of {r} than at that of {a}.",
        ),
        (
            "By the close of {r}, will the share price of {name} ({code}) have risen from its close of {a}?",
            "By the close of {r}, the share price of {name} ({code}) has risen from its close of {a}.",
        ),
    ),
    "economic series": (
        ("On {r}, will {name} be higher than on {a}?", "The value of {name} is higher on {r} than on {a}."),
        ("Compared with {a}, will {name} be up on {r}?", "Compared with {a}, the value of {name} is up on {r}."),
        (
            "Between {a} and {r}, will there be a net rise in {name}?",
            "There is a net rise in {name} between {a} and {r}.",
        ),
    ),
    "temperatures": (
        (
            "Will the mean temperature of the day at the weather station {name} be higher on {r} than on {a}?",
            "The mean temperature of the day at the weather station {name} is higher on {r} than on {a}.",
        ),
        (
            "At Météo-France's station {name}, will {r} be warmer than {a} on average over the day?",
            "At Météo-France's station {name}, {r} is warmer than {a} on average over the day.",
        ),
        (
            "Will {name} have a higher average temperature over the day of {r} than over that of {a}?",
            "{name} has a higher average temperature over the day of {r} than over that of {a}.",
        ),
    ),
    "chess rankings": (
        (
            "Will {name} stand at least as high in {table} on {r} as on {a}?",
            "{name} stands at least as high in {table} on {r} as on {a}.",
        ),
        (
            "On {r}, will {name} have kept or improved the place held in {table} on {a}?",
            "On {r}, {name} has kept or improved the place held in {table} on {a}.",
        ),
        ("Will {name} be no lower in {table} on {r} than on {a}?", "{name} is no lower in {table} on {r} than on {a}."),
    ),
    "chess ratings": (
        (
            "Will the Elo rating of {name} be at least 1 % higher on {r} than on {a}?",
            "The Elo rating of {name} is at least 1 % higher on {r} than on {a}.",
        ),
        (
            "Between {a} and {r}, will {name} gain 1 % or more in Elo rating?",
            "Between {a} and {r}, {name} gains 1 % or more in Elo rating.",
        ),
    ),
    "vaccines": (
        ("Will there be a vaccine against {name} by {r}?", "There is a vaccine against {name} by {r}."),
        ("By {r}, will a vaccine against {name} exist?", "By {r}, a vaccine against {name} exists."),
    ),
    "swimming records": (
        (
            "Will {name} still hold the long-course world record in the {code} on {r}?",
            "{name} still holds the long-course world record in the {code} on {r}.",
        ),
        (
            "On {r}, will the world record in the {code} (50-metre pool) still be that of {name}?",
            "On {r}, the world record in the {code} (50-metre pool) is still that of {name}.",
        ),
    ),
}
"""By kind: wordings, each a question and its proposition."""
BACKGROUNDS = {
    "share prices": (
        "{name} is listed in the United States as {code}. As of {on} it last closed at {value} US dollars.",
        "As of {on} the last close of {name}, symbol {code}, was {value} US dollars a share.",
        "The last close of {code}, the share of {name} on a US exchange, was {value} US dollars as of {on}.",
    ),
    "economic series": (
        "FRED, the St. Louis Fed's database, calls the series {code}. As of {on} its last value was {value} ({unit}).",
        "The series is {code} in the database FRED, in {unit}. It last stood at {value} as of {on}.",
        "As of {on} the last value of {code}, as FRED calls the series, was {value}; the unit is {unit}.",
    ),
    "temperatures": (
        "Météo-France reports the average of each day. As of {on} the last one was {value} degrees Celsius.",
        "DBnomics has the daily averages of Météo-France's stations. As of {on} the last here was {value} °C.",
        "The last daily average known on {on} was {value} °C; Météo-France keeps the record.",
    ),
    "chess rankings": (
        "FIDE publishes ratings of chess players each month. As of {on} {name} was number {value}.",
        "Ratings of chess players appear monthly. {name} was number {value} as of {on}.",
    ),
    "chess ratings": (
        "FIDE publishes ratings of chess players each month. As of {on} {name} had {value} points.",
        "Ratings of chess players appear monthly. {name} was rated {value} as of {on}.",
    ),
    "vaccines": (
        "As of {on} Wikipedia's list of infectious diseases named no vaccine against it.",
        "Wikipedia lists infectious diseases and says which have a vaccine. As of {on} this one had none.",
    ),
    "swimming records": (
        "As of {on} {name} was the holder. World Aquatics ratifies records, and Wikipedia lists them.",
        "{name} was listed as the holder as of {on}. Records are ratified by World Aquatics.",
    ),
}
CRITERIA = {
    "share prices": (
        "Yes if the later close is above the earlier one, adjusted for splits; no if it is equal or below. On a day "
        "without trading the last close before it counts, and for a share that is no longer listed its final one.",
        "The closes of the two days are compared, or the last ones before them if the exchange is shut or the share is "
        "delisted. Splits are allowed for. Yes for a rise, no for a fall or an equal price.",
        "No if the close of the later day is the same or less, after any split; yes if it is more. A day without "
        "trading takes the close before it, and a delisted share its final close.",
    ),
    "economic series": (
        "Yes if FRED's value for the later day is above that for the earlier one; no if it is equal or below. For a "
        "day without a value the last one before it counts.",
        "FRED's values for the two days are compared, or the last ones before them where a day has none. Yes for a "
        "rise, no for a fall or an equal value.",
        "No if the value that FRED gives for the later day is the same or less; yes if it is more. A day without a "
        "value takes the one before it.",
    ),
    "temperatures": (
        "Yes if Météo-France's average for the later day is above that for the earlier; no if it is not.",
        "Météo-France's averages of the two days are compared. Yes if the later is higher, no if it is not.",
        "No if the average of the later day is the same or lower in Météo-France's record; yes if it is higher.",
    ),
    "chess rankings": (
        "The places in Wikipedia's table of FIDE rankings on the two days are compared. Yes if the later number is the "
        "same or smaller, no if it is larger. A player no longer in the table has fallen.",
        "No if the number of the place has grown in Wikipedia's table of FIDE rankings, or if the player has left the "
        "table; yes if neither.",
    ),
    "chess ratings": (
        "The ratings in Wikipedia's table of FIDE rankings on the two days are compared. Yes for a rise of 1 % or "
        "more, no for less.",
        "No if the rise in Wikipedia's table of FIDE rankings is under 1 %; yes if it is 1 % or more.",
    ),
    "vaccines": (
        "Yes if Wikipedia's list says on that day that a vaccine exists; no if it says that none does.",
        "Wikipedia's list of infectious diseases decides: no if it names no vaccine on that day, yes if it does.",
    ),
    "swimming records": (
        "Yes if Wikipedia's list of world records in swimming has the same holder on that day; no if it has another.",
        "Wikipedia's list of world records in swimming decides: no for another holder on that day, yes for the same.",
    ),
}
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
        unknown = kind == "economic series" and code not in ECONOMIC
        if len(taken[kind]) < TAKEN[kind] and not {series, player} & seen and name not in LEFT_OUT and not unknown:
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
    """Args: values by day; and how many questions of the kind come before, which decides the wording."""
    name, code = _named(fact)
    turn, first = divmod(turn, len(QUESTIONS[kind]))
    turn, second = divmod(turn, len(BACKGROUNDS[kind]))
    a, r, on = fact["asked_on"], fact["resolves_on"], fact["value_on"]
    earlier = sorted((day for day in values if day < on), reverse=True)[:3]
    table = "FIDE's ranking of women" if WOMEN.search(name) else "FIDE's ranking"
    unit = ECONOMIC[code][1] if kind == "economic series" else ""
    known = {"name": name, "code": code, "a": a, "r": r, "on": on, "value": _number(fact["value"]), "unit": unit}
    known["table"] = table
    question, proposition = (text.format(**known) for text in QUESTIONS[kind][first])
    background = BACKGROUNDS[kind][second].format(**known)
    if earlier and kind not in ("vaccines", "swimming records"):
        background += f" Before: {', '.join(f'{_number(values[day])} as of {day}' for day in earlier)}."
    plain = normalize("NFKD", f"{kind} {code if kind in KINDS.values() else name}".lower()).encode("ascii", "ignore")
    slug = re.sub(r"[^a-z0-9]+", "-", plain.decode()).strip("-")
    return {
        "id": f"{slug}-{a}-{r}",
        "question": question,
        "proposition": proposition,
        "background": background,
        "criteria": CRITERIA[kind][turn % len(CRITERIA[kind])],
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
        family = (
            "yields"
            if unit in (PC, PP, "index points")
            else "balances"
            if unit.startswith("m") or unit == BN
            else "prices"
        )
    elif kind == "temperatures":  # stations of a region share the first digits of their numbers
        family += f" {fact['series'].split('.')[1][:2]}"
    return f"{family} {fact['asked_on']} to {fact['resolves_on']}"


def _kind(fact: Fact) -> str:
    if fact["source"] in KINDS:
        return KINDS[fact["source"]]
    of = fact["value_is"]
    if of.endswith("ELO rating."):
        return "chess ratings"
    return "chess rankings" if of.endswith("ranking.") else "vaccines" if "accine" in of else "swimming records"


def _named(fact: Fact) -> tuple[str, str]:
    """The name that stands in the wordings, and the code or the swimming event."""
    kind, of, series = _kind(fact), fact["value_is"], fact["series"]
    if kind == "share prices":
        return COMPANY.split(fact["background"])[0].rstrip(","), series
    if kind == "economic series":
        return ECONOMIC.get(series, ("", ""))[0], series
    if kind == "temperatures":
        number = series.split(".")[1]
        return PLACES.get(number, of.split(" station at ")[1].rstrip(".")), number
    if kind == "swimming records":
        name, event = of.rstrip(".").split(" is a record holder in the ")
        return name, event.replace("m ", "-metre ", 1)
    if kind == "vaccines":
        return of.removeprefix("Vaccine status for ").split(". 'No'")[0], series
    return of.rpartition("'s ")[0], series


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
