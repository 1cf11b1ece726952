"""Almanac: will it be above X on day D? Generated forecasting questions with dated news, each with the exact answer.

A small world runs week by week: a campaign with polls, a reservoir, a team's season, an outbreak, a price. The
background states all rules and chances, and the news reports the world imperfectly. From the text a reader can compute
what the metadata has: the exact probability on the day of the question and after each piece of news. A reader who takes
the latest figure for the truth is led astray by polling houses, late reports, misread gauges, luck and rumours.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Annotated, Literal

from inspect_ai.dataset import Sample
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading.generated import GeneratedQuestion, generate, logit, names, probability, world_sample
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.worlds.almanac import KINDS, Reading, paths


@dataclass(frozen=True)
class Wording:
    """One wording of a kind of world. `{case}` numbers the question, `{k}` the week, whose day is `{day}`."""

    name: str
    kind: str
    """A key of `KINDS`."""
    asked: str
    rules: str
    counts: str
    proposition: str
    news: Mapping[str, str]
    """Templates of a week's news. "first", if there is one, is that of week 1."""

    @property
    def template(self) -> str:
        """The whole question. `{past}` is the news up to the day on which it is asked."""
        return (
            f"{self.asked}\n\nBackground: {self.rules} The news so far: {{past}}\n\nWhat counts: {self.counts}\n\n"
            "The question is asked on {opened}."
        )


WORDINGS = (
    Wording(
        "bridge",
        "polls",
        "Will {threshold} percent or more vote for the bridge at {place} on {by}?",
        "This is vote {case}. Support for the bridge is a whole number of percent. In week 1 it is any number from 44 "
        "to 56, all equally likely. From one week to the next it rises by one point with a chance of {up} in 100, "
        "falls by one point with a chance of {down} in 100, and otherwise stays. A step below 40 or above 60 is not "
        "taken. With a chance of {anew} in 100 a scandal breaks instead: then support is any number from 40 to 60, "
        "all equally likely. Every week one poll appears, and a fair coin decides whether it is by {first} or by "
        "{second}. Each of the two houses has a lean, drawn once, that all its polls share: {lean} points too high "
        "with a chance of {leaning} in 100, {lean} points too low with the same chance, and otherwise none. To this "
        "each poll adds an error of its own: one point up or one point down with a chance of {one} in 100 each, two "
        "points up or two points down with a chance of {two} in 100 each, and otherwise none. All draws are "
        "independent of each other.",
        "The result on {by} is the support in that week, without lean or error. It must be {threshold} or more.",
        "{threshold} percent or more vote for the bridge at {place} on {by} (vote {case}).",
        {"news": "Vote {case}, week {k} ({day}): {house} finds {value} percent for the bridge."},
    ),
    Wording(
        "mayor",
        "polls",
        "On {by}, {place} elects its mayor. Will the sitting mayor get at least {threshold} percent?",
        "Election {case}. The mayor's share in week 1 is drawn evenly from the whole percentages from 44 to 56. In "
        "each later week it gains a point in {up} of 100 cases and loses a point in {down} of 100, but it never "
        "leaves the range from 40 to 60: a step that would leave it is not taken. In {anew} of 100 weeks none of this "
        "applies, because an affair breaks and the share is drawn afresh, evenly from 40 to 60. Two institutes, "
        "{first} and {second}, take polls. There is one poll a week, and each week both are equally likely to take "
        "it. Their methods may favour the mayor or the rival. What all polls of an institute add was drawn once, "
        "before the campaign, and separately for each institute: {lean} points in {leaning} of 100 cases, minus "
        "{lean} points in {leaning} of 100, otherwise nothing. Chance then moves every single poll by plus or minus "
        "one point (each in {one} of 100 cases) or plus or minus two points (each in {two} of 100). No draw depends "
        "on another.",
        "The count on {by} gives exactly the share that the mayor has in that week. {threshold} percent is enough.",
        "The sitting mayor of {place} gets at least {threshold} percent on {by} (election {case}).",
        {"news": "Election {case}, week {k}, {day}. Poll by {house}: the mayor stands at {value} percent."},
    ),
    Wording(
        "dam",
        "reservoir",
        "Will the water behind the dam of {place} stand at mark {threshold} or higher on {by}?",
        "This is dam {case}. Its marks run from 0 to 20. In week 1 the water stands at any mark from 5 to 15, all "
        "equally likely, and the weather is wet or dry with equal chances. Each later week the weather first turns to "
        "the other kind with a chance of {swap} in 100. Then the water moves, up if it is wet now and down if it is "
        "dry: by one mark with a chance of {one} in 100, by two with a chance of {two} in 100, otherwise not at all. "
        "A move stops at 0 and at 20. With a chance of {anew} in 100 the gates jam instead, and the water stands at "
        "any mark from 0 to 20, all equally likely; the weather turns as in any other week. Every week the warden "
        "reads the gauge. The note is one mark too high with a chance of {misread} in 100 and one mark too low with "
        "the same chance, except that an error past 0 or 20 is not made. All draws are independent of each other. The "
        "weather itself is not in the news.",
        "The water's true mark in the week of {by} is what counts, not the warden's note.",
        "The water behind the dam of {place} stands at mark {threshold} or higher on {by} (dam {case}).",
        {"news": "Dam {case}, week {k} ({day}): the warden notes mark {value}."},
    ),
    Wording(
        "lake",
        "reservoir",
        "The ferry on the lake of {place} needs the water at line {threshold} or above. Can it land on {by}?",
        "Lake {case} has lines from 0 to 20. In week 1 its water is at a line drawn evenly from 5 to 15, and a coin "
        "decides whether the springs are full or spent. From week to week the springs change from one to the other in "
        "{swap} of 100 cases. While they are full, which includes the week of the change, the water rises, and while "
        "they are spent it sinks: one line in {one} of 100 weeks, two in {two} of 100, none in the rest; at line 0 "
        "and line 20 it goes no further. In {anew} of 100 weeks a landslide overrides this and leaves the water at a "
        "line drawn evenly from 0 to 20, without any effect on the springs. A boy reads the line once a week. In "
        "{misread} of 100 readings he takes it for the line above, in {misread} of 100 for the line below, but where "
        "that would be above 20 or below 0 he reads it correctly. Nobody sees the springs. No draw depends on another.",
        "On {by} it is the true line of that week that decides, whatever the boy reads.",
        "On {by} the water of the lake of {place} is at line {threshold} or above (lake {case}).",
        {"news": "Lake {case}, {day}, week {k}: the boy says line {value}."},
    ),
    Wording(
        "team",
        "league",
        "Will the team of {place} win at least {threshold} of its five matches in the tournament of {by}?",
        "This is season {case}. As long as a team keeps its players, it wins each match with the same chance, "
        "whatever the opponent. Of 100 teams, 10 win a match with a chance of 20 percent, 20 with 35, 40 with 50, 20 "
        "with 65 and 10 with 80, and nobody knows which kind this one is. Before any week after week 1, with or "
        "without matches, the team changes its players with a chance of {change} in 100, and its kind is then drawn "
        "again with the same chances. It plays two matches in every week that is in the news, and five on {by}. All "
        "draws are independent of each other.",
        "Of the five matches on {by} at least {threshold} must be won. Earlier ones do not count.",
        "The team of {place} wins at least {threshold} of its five matches on {by} (season {case}).",
        {"news": "Season {case}, week {k} ({day}): the team wins {won} of its two matches."},
    ),
    Wording(
        "chess",
        "league",
        "{place} sends its chess champion to five games on {by}. Will the champion win {threshold} or more of them?",
        "Championship {case}. A champion's form is the chance of winning a game, in percent. It is 50 for 40 "
        "champions in 100, 35 for 20, 65 for another 20, 20 for 10 and 80 for 10. A champion's form never changes, "
        "but in {change} of 100 weeks, with or without games, the champion is replaced at the beginning of the week "
        "by one whose form is drawn from the same list. The news tells of the two games that the present champion "
        "plays each week, but never of form or of a replacement. All games and replacements are drawn independently "
        "of each other.",
        "The champion of that week must win {threshold} or more of the five games on {by}.",
        "The chess champion of {place} wins {threshold} or more of the five games on {by} (championship {case}).",
        {"news": "Championship {case}, {day}, week {k}: games won, {won} of two."},
    ),
    Wording(
        "fever",
        "outbreak",
        "Will {threshold} people or more in {place} fall ill with the fever in the week of {by}?",
        "This is outbreak {case}. In week 1 any number of people from 6 to 18 fall ill, all numbers equally likely, "
        "and the fever is spreading or fading with equal chances. Each later week it first turns from one to the "
        "other with a chance of {swap} in 100. Then the number of people who fall ill goes up from that of the week "
        "before if the fever is spreading now, and down if it is fading: by one with a chance of {one} in 100, by two "
        "with a chance of {two} in 100, otherwise not at all. A change stops at 0 and at 30. With a chance of {anew} "
        "in 100 travellers arrive instead, and the number is any from 0 to 30, all equally likely; the fever turns as "
        "in any other week. Each person who falls ill is reported in the same week with a chance of {prompt} in 100, "
        "and otherwise in the week after. All draws are independent of each other. Whether the fever spreads is not "
        "in the news.",
        "All who fall ill in the week of {by} count, whenever they are reported. There must be {threshold} or more.",
        "In the week of {by}, {threshold} people or more in {place} fall ill with the fever (outbreak {case}).",
        {
            "first": "Outbreak {case}, week {k} ({day}): reported so far of those who fell ill this week, {now}.",
            "news": "Outbreak {case}, week {k} ({day}): reported so far of those who fell ill this week, {now}; "
            "reported late of those who fell ill the week before, {late}.",
        },
    ),
    Wording(
        "rust",
        "outbreak",
        "Rust attacks the orchards of {place}. Will it reach at least {threshold} new ones in the week of {by}?",
        "Plague {case}. The orchards newly attacked are counted week by week: in week 1 the count is drawn evenly "
        "from 6 to 18. A coin decides whether the plague begins in its growing or in its waning state. At the start "
        "of each later week the state changes in {swap} of 100 cases. In the growing state the count then goes up, in "
        "the waning state down, by one in {one} of 100 weeks and by two in {two} of 100; in the rest it stays as it "
        "was. A change stops at 0 and at 30. In {anew} of 100 weeks a storm carries the rust about instead: the count "
        "is drawn afresh, evenly from 0 to 30, and the state is not affected. A farmer whose orchard is attacked "
        "writes at once in {prompt} of 100 cases, so that the letter counts in that week, and otherwise a week later. "
        "No draw depends on another, and nobody can see the state.",
        "All orchards newly attacked in the week of {by} count, including those whose letters come later.",
        "At least {threshold} orchards of {place} are newly attacked in the week of {by} (plague {case}).",
        {
            "first": "Plague {case}, {day}, week {k}: letters about this week's attacks, {now}.",
            "news": "Plague {case}, {day}, week {k}: letters about this week's attacks, {now}; about last week's, "
            "{late}.",
        },
    ),
    Wording(
        "saffron",
        "price",
        "Will a pound of saffron cost {threshold} crowns or more in {place} on {by}?",
        "This is market {case}. The price is the value of a pound plus the effect of a rumour, if there is one. The "
        "value is a whole number of crowns: in week 1 any from 35 to 45, all equally likely. Each later week it rises "
        "by one with a chance of {up} in 100, falls by one with a chance of {down} in 100, and otherwise stays; a "
        "step below 20 or above 60 is not taken. With a chance of {anew} in 100 an unusual harvest comes instead, and "
        "the value is any number from 20 to 60, all equally likely. In week 1 there is no rumour. In a week after one "
        "without a rumour, a rumour starts with a chance of {rumour} in 100: it adds {size} crowns or takes {size} "
        "off, with equal chances. A rumour keeps its effect until it ends, which it does in each following week with "
        "a chance of {fade} in 100; in the week in which it ends there is none. All draws are independent of each "
        "other, and the news gives only the price.",
        "The price in the week of {by}, with the effect of a rumour if there is one, must be {threshold} or more.",
        "A pound of saffron costs {threshold} crowns or more in {place} on {by} (market {case}).",
        {"news": "Market {case}, week {k} ({day}): a pound costs {value} crowns."},
    ),
    Wording(
        "mine",
        "price",
        "Will a share of the {place} mine trade at {threshold} or more on {by}?",
        "Mine {case}. Its share has a lasting value, from which excitement can push the price away. The lasting value "
        "in week 1 is drawn evenly from 35 to 45, and nobody is excited then. It changes every week: plus one in {up} "
        "of 100 cases, minus one in {down} of 100, no change in the rest or where the step would leave the range from "
        "20 to 60. But in {anew} of 100 weeks a vein is found or lost instead, and the value is drawn afresh, evenly "
        "from 20 to 60. If there was no excitement the week before, it sets in with a chance of {rumour} in 100; a "
        "coin decides whether the price is then {size} above the lasting value or {size} below it. The price stays "
        "{size} above or below, as the coin fell, for as long as the excitement lasts. After each week of excitement "
        "there is a chance of {fade} in 100 that it is over: the next week is then without it. Only the price is "
        "published. No draw depends on another.",
        "The price in the week of {by} decides. {threshold} itself is enough.",
        "A share of the {place} mine trades at {threshold} or more on {by} (mine {case}).",
        {"news": "Mine {case}, {day}, week {k}: the share is quoted at {value}."},
    ),
)


OPENED = date(2025, 3, 3)
"""The day on which every question is asked."""
TRADERS = 8


class AlmanacQuestion(GeneratedQuestion, frozen=True):
    """A question with what it was generated from."""

    kind: str
    """The kind of world."""
    numbers: dict[str, int]
    """What the background states, by field of its wording; chances in 100."""
    readings: list[list[int]]
    """The figures of each week's news, in the order of `Kind.fields`: those of the background, then the evidence."""
    weeks: int
    """The week on which the question resolves, counted from the first reading as week 1."""


@validate_call
def almanac(
    n: Annotated[int, Field(ge=1)] = 300,
    seed: int = 0,
    split: str = "all",
    kind: Literal["all", "polls", "reservoir", "league", "outbreak", "price"] = "all",
    history: Annotated[int, Field(ge=1, le=6)] = 2,
    news: Annotated[int, Field(ge=1, le=12)] = 4,
    ahead: Annotated[int, Field(ge=1, le=12)] = 3,
) -> Questions:
    """Generate forecasting questions about small worlds, with dated news as evidence.

    Question i depends only on the seed, i and the difficulty: a longer set begins with the shorter one.

    Args:
        n: Number of questions, all of the split.
        seed: Another seed gives other questions.
        split: "train", "validation", "test" or "all". Every question is its own event.
        kind: The kind of world, or "all": each question draws one.
        history: Weeks of news that the background tells, 1 to 6.
        news: Weeks of news that follow as evidence, 1 to 12.
        ahead: Weeks from the last news to the day on which the question resolves, 1 to 12. More weeks make the answer
            less certain.

    Raises:
        BadInput: An argument outside its range, or an unknown split.
    """
    wordings = [wording for wording in WORDINGS if kind in ("all", wording.kind)]
    difficulty = f"{kind}-history{history}-news{news}-ahead{ahead}"

    def make(i: int) -> Sample:
        return _question(seed, i, wordings, history, news, ahead, difficulty)

    return generate("almanac", make, n, split)


def crowd_of(rng: random.Random, exact: float, naive: float) -> float:
    """What simulated traders give on the day of the question: the mean of their log-odds, as a probability.

    Each trader's log-odds lie somewhere between those of the exact and the naive reader of the background, evenly, with
    a normal error of standard deviation 0.5. So the crowd knows nothing that the background does not say.
    """
    bids = [logit(exact) + rng.random() * (logit(naive) - logit(exact)) + rng.gauss(0, 0.5) for _ in range(TRADERS)]
    return round(min(max(probability(sum(bids) / TRADERS), 0.01), 0.99), 2)


def _question(
    seed: int, i: int, wordings: Sequence[Wording], history: int, news: int, ahead: int, difficulty: str
) -> Sample:
    rng = random.Random(f"almanac/{seed}/{i}/{difficulty}")
    wording = rng.choice(wordings)
    kind = KINDS[wording.kind]
    place, *houses = names(rng, 3)
    numbers = {name: rng.randint(*ends) for name, ends in kind.ranges.items()}
    weeks = history + news + ahead
    states = [kind.begin(rng, numbers)]
    for _ in range(weeks - 1):
        states.append(kind.move(rng, numbers, states[-1]))
    truth = kind.ends(rng, numbers, states[-1])
    readings = kind.read(rng, numbers, states[: history + news])

    exact, naive = paths(kind, numbers, readings, weeks)
    case = 1000 + i
    identity = f"almanac-{i:05d}-seed{seed}-{difficulty}"
    days = [OPENED + timedelta(weeks=week - history) for week in range(1, weeks + 1)]
    reported = [
        _template(wording, week).format(case=case, k=week, day=days[week - 1], **_figures(kind.fields, reading, houses))
        for week, reading in enumerate(readings, start=1)
    ]
    slots: dict[str, object] = {"case": case, "place": place, "by": days[-1], **numbers}
    asked = wording.template.format(
        **slots, first=houses[0], second=houses[1], opened=OPENED, past=" ".join(reported[:history])
    )
    return world_sample(
        AlmanacQuestion, identity, asked, truth,
        proposition=wording.proposition.format(**slots), evidence=reported[history:], opened_on=OPENED,
        base_rate=exact[0], crowd=crowd_of(rng, exact[history], naive[history - 1]), posterior=exact[history:],
        naive=naive[history - 1 :], surface=wording.name, kind=kind.name, numbers=numbers,
        readings=[list(reading) for reading in readings], weeks=weeks,
    )  # fmt: skip


def _template(wording: Wording, week: int) -> str:
    return wording.news["first" if week == 1 and "first" in wording.news else "news"]


def _figures(fields: Sequence[str], reading: Reading, houses: Sequence[str]) -> Mapping[str, object]:
    return {name: houses[x] if name == "house" else x for name, x in zip(fields, reading, strict=True)}
