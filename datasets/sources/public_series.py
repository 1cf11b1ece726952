"""Public series: writes the questions of `forecasting_series.jsonl` from facts about series that resolved in 2026.

    python -m truthgym.datasets.sources.public_series FACTS datasets/forecasting_series.jsonl

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
from hashlib import sha256
from pathlib import Path
from typing import Any
from unicodedata import normalize

from truthgym.datasets.loading.row_files import read_rows

Fact = Mapping[str, Any]
TAKEN = {
    "share prices": 96,
    "economic series": 90,
    "temperatures": 48,
    "chess rankings": 30,
    "chess ratings": 8,
    "vaccines": 8,
    "swimming records": 4,
}
"""Questions of each kind: at most one on a series, and one on a chess player."""
LEFT_OUT = ("Desmodesmus infection", "Zeaspora")
"""Diseases that the encyclopedia lists and medicine hardly knows."""
PC, PP, BN, MN = "percent", "percentage points", "billion US dollars", "million US dollars"
ECONOMIC = {
    **{
        f"DGS{n}": (f"the yield of US Treasuries at a constant maturity of {n} years", PC)
        for n in (2, 3, 5, 7, 10, 20, 30)
    },
    **{f"DFII{n}": (f"the yield of inflation-indexed US Treasuries of {n} years", PC) for n in (5, 10, 30)},
    "ANFCI": ("the Chicago Fed's adjusted index of financial conditions", "index points"),
    "BAA10Y": ("the gap between Moody's Baa corporate yield and the 10-year Treasury yield", PP),
    "BAMLC0A0CMEY": ("the effective yield of US corporate bonds (ICE BofA)", PC),
    "BAMLC0A3CA": ("the option-adjusted spread of A-rated US corporate bonds (ICE BofA)", PP),
    "BAMLC0A3CAEY": ("the effective yield of A-rated US corporate bonds (ICE BofA)", PC),
    "BAMLC0A4CBBBEY": ("the effective yield of BBB-rated US corporate bonds (ICE BofA)", PC),
    "BAMLC4A0C710YEY": ("the effective yield of US corporate bonds with 7 to 10 years to run (ICE BofA)", PC),
    "BAMLCC0A0CMTRIV": ("the total return index of US corporate bonds (ICE BofA)", "index points"),
    "BAMLH0A0HYM2": ("the option-adjusted spread of US high-yield corporate bonds (ICE BofA)", PP),
    "BAMLH0A1HYBB": ("the option-adjusted spread of BB-rated US high-yield bonds (ICE BofA)", PP),
    "BAMLH0A1HYBBEY": ("the effective yield of BB-rated US high-yield bonds (ICE BofA)", PC),
    "BAMLH0A2HYB": ("the option-adjusted spread of B-rated US high-yield bonds (ICE BofA)", PP),
    "BAMLH0A3HYC": ("the option-adjusted spread of US high-yield bonds rated CCC or lower (ICE BofA)", PP),
    "BAMLHE00EHYIOAS": ("the option-adjusted spread of euro high-yield bonds (ICE BofA)", PP),
    "BAMLHYH0A0HYM2TRIV": ("the total return index of US high-yield bonds (ICE BofA)", "index points"),
    "CASACBW027SBOG": ("the cash assets of US commercial banks", BN),
    "CBBTCUSD": ("the price of a bitcoin on Coinbase", "US dollars"),
    "CC4WSA": ("the four-week average of continued claims for US unemployment benefits", "claims"),
    "CCLACBW027SBOG": ("the credit card loans of US commercial banks", BN),
    "CREACBW027SBOG": ("the commercial real estate loans of US commercial banks", BN),
    "DAAA": ("Moody's yield of seasoned Aaa corporate bonds", PC),
    "DBAA": ("Moody's yield of seasoned Baa corporate bonds", PC),
    "DCOILBRENTEU": ("the spot price of Brent crude oil", "US dollars a barrel"),
    "DCOILWTICO": ("the spot price of West Texas Intermediate crude oil", "US dollars a barrel"),
    "DEXJPUS": ("the price of a US dollar in yen", "yen"),
    "DFF": ("the effective federal funds rate on each calendar day", PC),
    "DGS1": ("the yield of US Treasuries at a constant maturity of 1 year", PC),
    "DGS3MO": ("the yield of US Treasuries at a constant maturity of 3 months", PC),
    "DHHNGSP": ("the spot price of natural gas at Henry Hub", "US dollars per million BTU"),
    "DPCREDIT": ("the Federal Reserve's rate for primary credit", PC),
    "DPSACBW027SBOG": ("the deposits at US commercial banks", BN),
    "DTB1YR": ("the discount rate of 1-year US Treasury bills in the secondary market", PC),
    "DTB3": ("the discount rate of 3-month US Treasury bills in the secondary market", PC),
    "ECBASSETSW": ("the total assets of the Eurosystem's central banks", "million euros"),
    "ECBDFR": ("the European Central Bank's deposit facility rate", PC),
    "EXPINF10YR": ("the Cleveland Fed's estimate of expected inflation over 10 years", PC),
    "EXPINF5YR": ("the Cleveland Fed's estimate of expected inflation over 5 years", PC),
    "GASDESW": ("the average pump price of diesel in the United States", "US dollars a gallon"),
    "GASREGW": ("the average pump price of regular gasoline in the United States", "US dollars a gallon"),
    "H41RESPPALDKNWW": ("the Federal Reserve's loans of the Bank Term Funding Program on Wednesdays", MN),
    "IHLIDXUS": ("Indeed's index of job postings in the United States", "points"),
    "MMTY": ("the Treasury yield with which the FDIC caps money market deposit rates", PC),
    "MORTGAGE30US": ("Freddie Mac's average rate on 30-year fixed mortgages in the United States", PC),
    "NFCI": ("the Chicago Fed's index of financial conditions", "index points"),
    "NFCIRISK": ("the risk part of the Chicago Fed's index of financial conditions", "index points"),
    "NIKKEI225": ("the Nikkei 225 share index", "points"),
    "OBFR": ("the overnight bank funding rate", PC),
    "OBMMIFHA30YF": ("Optimal Blue's index of rates on 30-year fixed mortgages insured by the FHA", PC),
    "OBMMIJUMBO30YF": ("Optimal Blue's index of rates on 30-year fixed jumbo mortgages", PC),
    "OBMMIVA30YF": ("Optimal Blue's index of rates on 30-year fixed mortgages for veterans", PC),
    "OVXCLS": ("the Cboe index of the volatility of crude oil", "points"),
    "REAINTRATREARAT10Y": ("the Cleveland Fed's estimate of the 10-year real interest rate", PC),
    "REAINTRATREARAT1YE": ("the Cleveland Fed's estimate of the 1-year real interest rate", PC),
    "RIFSPPFAAD90NB": ("the rate on 90-day AA-rated financial commercial paper", PC),
    "RPONTSYD": ("the Treasuries that the Federal Reserve buys in overnight repurchase agreements", BN),
    "RRPONTSYAWARD": ("the rate that the Federal Reserve pays on overnight reverse repurchase agreements", PC),
    "RRPONTSYD": ("the Treasuries that the Federal Reserve sells in overnight reverse repurchase agreements", BN),
    "SOFR180DAYAVG": ("the 180-day average of the overnight rate SOFR", PC),
    "SOFR30DAYAVG": ("the 30-day average of the overnight rate SOFR", PC),
    "T10Y2Y": ("the gap between 10-year and 2-year Treasury yields", PP),
    "T10Y3M": ("the gap between 10-year and 3-month Treasury yields", PP),
    "T10YFF": ("the gap between the 10-year Treasury yield and the federal funds rate", PP),
    "T10YIE": ("the inflation over 10 years at which nominal and indexed Treasuries break even", PC),
    "T5YIFR": ("the inflation expected by markets for the five years that begin in five years", PC),
    "THREEFYTP10": ("the estimated term premium in the yield of a 10-year zero-coupon Treasury bond", PP),
    "TOTBKCR": ("the total credit of US commercial banks", BN),
    "TOTCI": ("the commercial and industrial loans of US commercial banks", BN),
    "TOTLL": ("the loans and leases of US commercial banks", BN),
    "TREAST": ("the Federal Reserve's holdings of US Treasury securities on Wednesdays", MN),
    "VXVCLS": ("the Cboe index of the three-month volatility of the S&P 500", "points"),
    "WDTGAL": ("the US Treasury's balance at the Federal Reserve on Wednesdays", MN),
    "WGS10YR": ("the weekly average yield of 10-year US Treasuries", PC),
    "WGS1YR": ("the weekly average yield of 1-year US Treasuries", PC),
    "WLCFLL": ("the Federal Reserve's loans from its credit facilities on Wednesdays", MN),
    "WLODLL": ("the deposits of banks at the Federal Reserve on Wednesdays", MN),
    "WLRRAL": ("the Federal Reserve's reverse repurchase agreements on Wednesdays", MN),
    "WM2NS": ("the US money stock M2, not seasonally adjusted", BN),
    "WORAL": ("the Federal Reserve's repurchase agreements on Wednesdays", MN),
    "WRMFNS": ("the assets of retail money market funds in the United States", BN),
    "WSHOSHO": ("the securities that the Federal Reserve holds outright on Wednesdays", MN),
}
"""Series of FRED: what they measure, in our own words, and the unit."""
PLACES = {
    "07535": "Gourdon (Lot)",
    "61980": "Roland Garros Airport (Réunion)",
    "61997": "Île de la Possession (Crozet Islands)",
    "61998": "Grande Terre (Kerguelen)",
    "67005": "Pamandzi (Mayotte)",
    "71805": "Saint-Pierre (Saint Pierre and Miquelon)",
    "81401": "Saint-Laurent (French Guiana)",
}
"""Stations of Météo-France that need more than their name, by number."""
WOMEN = re.compile(
    "(Batsiashvili|Dronavalli|Dzagnidze|Deshmukh|Goryachkina|Humpy|Jiner|Kashlinskaya|Kosteniuk|Lagno|Muzychuk"
    "|Rameshbabu|Shuvalova|Tingjie|Tsolakidou|Wenjun|Yifan|Yip|Zhongyi)$"
)
"""Last names of the chess players whose ranking is that among women."""
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
        "same or smaller, no if it is larger.",
        "No if the number of the place has grown in Wikipedia's table of FIDE rankings; yes if it has not.",
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
        past = [r["outcome"] for r in made if r["field"] == row["field"] and r["known_on"] < row["opened_on"]]
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
        "event": f"forecastbench-{fact['source']}-{fact['series']}",
        "field": kind,
        "recorded": f"{WHERE[fact['source']]}, {fact['url']}, value of {r}; ForecastBench, resolution set of {a}",
    }


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
