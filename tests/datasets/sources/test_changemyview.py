"""What is taken out of real posts and comments, so that they do not tell how the exchange ended."""

import pytest

from truthgym.datasets.sources.changemyview import (
    ForumComment,
    LeftOut,
    comment_of,
    confirms,
    day_of,
    event_of,
    exchange_of,
    post_of,
    verdict,
    view_of,
)

FOOTER = (
    "\n\n_____\n\n&gt; *Hello, users of CMV! This is a footnote from your moderators. We'd just like to remind you of "
    "a couple of things. Firstly, please remember to* ***[read through our rules](http://www.reddit.com/r/changemyview/"
    "wiki/rules)***. *Happy CMVing!*"
)


@pytest.mark.parametrize(
    ("title", "view"),
    [
        ("CMV: Cats make better pets than dogs", "Cats make better pets than dogs."),
        ("Cats make better pets than dogs, CMV.", "Cats make better pets than dogs."),
        ("I think taxes are &amp; remain theft. CMV", "Taxes are & remain theft."),
        ("[Deltas Awarded] CMV: I firmly believe voting should be compulsory", "Voting should be compulsory."),
        ('CMV: "Literally" may mean figuratively', '"Literally" may mean figuratively.'),
        ("CMV: Is it ever right to lie?", "Is it ever right to lie?"),
        ("Change my view: Nobody should own\n a zoo!", "Nobody should own a zoo!"),
    ],
)
def test_a_title_is_read_as_a_view(title: str, view: str) -> None:
    assert view_of(title) == view


@pytest.mark.parametrize("title", [None, "", "CMV", "CMV: abortion", "[Mod Post] CMV: rules"])
def test_a_title_of_a_word_or_two_is_no_view(title: str | None) -> None:
    with pytest.raises(LeftOut, match="title that is not a view"):
        view_of(title)


@pytest.mark.parametrize(
    "tail",
    [
        FOOTER,
        "\n\nEDIT: Delta awarded to /u/someone, thanks all!",
        "\n\n**Edit:** my view has been changed.\n\nI did not think of the costs.",
        "\n\n*edit 2* - a few of you have convinced me\n\nMore of it." + FOOTER,
        "\n\nEDIT Thanks everyone, this went well",
        " Edit: ok, changed.",
        " You have changed my view already, some of you. A delta is on its way!",
        "\n\n_____\n\n&gt; *This is a footnote from the CMV moderators. We'd like to remind you of some things.*",
    ],
)
def test_what_came_after_the_answers_is_taken_out_of_a_post(tail: str) -> None:
    assert post_of("Dogs need walks.\n\nCats do not &amp; sleep." + tail) == "Dogs need walks.\n\nCats do not & sleep."


def test_an_edit_put_first_leaves_what_follows() -> None:
    assert post_of("EDIT: view changed!\n\nEDIT 2: really\n\nDogs need walks.") == "Dogs need walks."


@pytest.mark.parametrize(
    "text",
    [
        "I edit videos for a living, and editing should be paid.",
        "My mind is made up: please change my view, or tell me what changed since.",
        "I am convinced that cats plan this.",
        "The landscape is changed by rivers.",
    ],
)
def test_words_that_only_look_like_a_verdict_stay(text: str) -> None:
    assert post_of(text) == text
    assert comment_of(text) == text
    assert not verdict(text)


@pytest.mark.parametrize("text", [None, "", " [deleted] ", "[removed]", "EDIT: gone", "∆", FOOTER])
def test_a_post_without_text_is_left_out(text: str | None) -> None:
    with pytest.raises(LeftOut, match="with a post"):
        post_of(text)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Ask /u/bob or u/ann_1.\n\n&gt; a quote\n\nNo.", "Ask another user or another user.\n\n> a quote\n\nNo."),
        ("They sleep. Edit: thanks for the delta!", "They sleep."),
        ("They sleep.\nEDIT: a typo\nAnd eat.", "They sleep.\n\nAnd eat."),
        ("They sleep. Glad I changed your view! They eat.", "They sleep. They eat."),
    ],
)
def test_a_comment_keeps_what_it_argued(text: str, left: str) -> None:
    assert comment_of(text) == left


@pytest.mark.parametrize(
    "text",
    ["∆", "!delta, well put", "Here is a &#8710; for you", "&amp;#8710;", "Δ you convinced me",
     "You've changed my mind on this", "I have to say you really convinced me", "Okay, my view is now changed",
     "Consider me CMV'd"],
)  # fmt: skip
def test_a_verdict_is_seen(text: str) -> None:
    assert verdict(text)


PATH = [
    ForumComment("reader", "They sleep."),
    ForumComment("op", "So do dogs."),
    ForumComment("other", "Dogs bark, too."),
    ForumComment("op", "∆ That is so."),
    ForumComment("reader", "Thanks!"),
]


def test_an_exchange_ends_before_the_verdict_and_with_what_the_author_answered() -> None:
    assert exchange_of(PATH, "op") == ["Reader A: They sleep.", "Author: So do dogs.", "Reader B: Dogs bark, too."]
    assert exchange_of(PATH[:2], "op") == ["Reader A: They sleep."]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ([], "without an answer before the verdict"),
        ([ForumComment("op", "I add this.")], "without an answer before the verdict"),
        ([ForumComment("reader", "[deleted]")], "with a comment that was deleted"),
        ([ForumComment("reader", "EDIT: Thanks for the delta!")], "with a comment that is about its effect alone"),
        (
            [ForumComment("reader", "No."), ForumComment("op", "Yes.")] * 6 + [ForumComment("reader", "No.")],
            "with more than 12 texts",
        ),
    ],
)
def test_an_exchange_of_which_nothing_can_be_made_is_left_out(path: list[ForumComment], why: str) -> None:
    with pytest.raises(LeftOut, match=why):
        exchange_of(path, "op")


@pytest.mark.parametrize(
    ("author", "text", "said"),
    [
        ("DeltaBot", "Confirmed: 1 delta awarded to /u/reader ([3∆](/r/changemyview/wiki/user/reader)).", True),
        ("DeltaBot", "This delta has been rejected. The length of your comment suggests that ...", False),
        ("reader", "Confirmed: 1 delta awarded to /u/reader", False),
        ("DeltaBot", None, False),
    ],
)
def test_the_bot_alone_confirms(author: str, text: str | None, said: bool) -> None:
    assert confirms(ForumComment(author, text)) is said


def test_an_event_is_the_same_in_every_archive() -> None:
    assert event_of("t3_18n2uc") == event_of("18n2uc") == "cmv-18n2uc"


@pytest.mark.parametrize(
    ("seconds", "day"),
    [("1427670580", "2015-03-29"), (1461604037.0, "2016-04-25"), (None, None), ("None", None), (1e300, None)],
)
def test_a_time_is_read_as_a_day(seconds: str | float | None, day: str | None) -> None:
    assert day_of(seconds) == day


@pytest.mark.parametrize("run", ["\n", "*", " \n", "&gt;"])
def test_texts_are_read_in_linear_time(run: str) -> None:
    text = "Dogs sleep. A footnote, delta, edit" + run * 100_000 + "b"
    assert post_of(text)
    assert comment_of(text)
    with pytest.raises(LeftOut):
        view_of("[" * 100_000)
