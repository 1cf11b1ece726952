import pytest

from truthgym.datasets.sources.openreview_api import abstract_of, event_of, outcome_of, review_of

ICLR_2024 = {
    "summary": "The paper trains a small network to sort lists and compares it with two older ones.",
    "soundness": "3 good",
    "presentation": "4 excellent",
    "contribution": "2 fair",
    "strengths": "1. It is clearly written, and the code runs.\n2. The baselines are tuned as well as the method.",
    "weaknesses": "Only one kind of list is tried, and no interval is given for any of the figures.",
    "questions": "How long does training take when the lists are ten times as long?",
    "flag_for_ethics_review": ["No ethics review needed."],
    "rating": "6: marginally above the acceptance threshold",
    "confidence": "4: You are confident in your assessment, but not absolutely certain.",
    "code_of_conduct": "Yes",
}
ICLR_2020 = {
    "title": "Official Blind Review #2: a nice paper that I would like to see accepted",
    "experience_assessment": "I have published one or two papers in this area.",
    "rating": "3: Weak Reject",
    "review_assessment:_checking_correctness_of_derivations_and_theory": "I did not assess the derivations or theory.",
    "review": "This work sorts lists with a network. I find the comparison with earlier work too short.",
}


@pytest.mark.parametrize(
    ("words", "outcome"),
    [
        ("Accept (Poster)", "yes"),
        ("Accept: notable-top-25%", "yes"),
        ("accept as oral", "yes"),
        ("Reject", "no"),
        ("Reject, Desk Reject", None),
        ("Desk Rejected", None),
        ("Accept, withdrawn by the authors", None),
        ("Invite to Workshop Track", None),
        ("N/A", None),
        ("", None),
    ],
)
def test_what_a_decision_says(words: str, outcome: str | None) -> None:
    assert outcome_of(words) == outcome


def test_a_title_is_one_event_wherever_it_is_sent() -> None:
    assert (
        event_of("Sorting, with <1MB: a Study")
        == event_of("Sorting with <1mb — A study")
        == ("paper-sorting-with-1mb-a-study")
    )
    assert event_of("Sorting, a Study") != event_of("Sorting, another Study")
    assert event_of("排序网络") == "paper-排序网络"
    assert len(event_of("long " * 100)) <= len("paper-") + 80


def test_the_prose_of_a_review_is_evidence_and_its_marks_are_not() -> None:
    text = review_of(ICLR_2024)
    assert text is not None
    assert text.startswith("Summary: The paper trains a small network")
    assert "Strengths: 1. It is clearly written" in text, "a numbered list is no mark"
    assert [part.split(":")[0] for part in text.split("\n\n")] == ["Summary", "Strengths", "Weaknesses", "Questions"]
    assert not [given for given in ("threshold", "confident", "good", "ethics", "Yes") if given in text]


def test_forms_of_other_years_are_read_too() -> None:
    assert review_of(ICLR_2020) == f"Review: {ICLR_2020['review']}"


def test_marks_stand_first_where_they_are_asked_for() -> None:
    text = review_of(ICLR_2024, ratings=True)
    assert text is not None
    assert text.split("\n\n")[:2] == [
        "Rating: 6: marginally above the acceptance threshold",
        "Confidence: 4: You are confident in your assessment, but not absolutely certain.",
    ]
    assert (review_of({"rating": 6, "review": ICLR_2020["review"]}, ratings=True) or "").startswith("Rating: 6\n\n")


def test_a_review_without_prose_is_none() -> None:
    assert review_of({"rating": "6: marginally above the acceptance threshold", "review": "N/A"}, ratings=True) is None
    assert review_of({}) is None


def test_links_of_an_abstract_are_masked() -> None:
    text = "We sort lists. Code: https://github.com/anna/sorting (see www.example.org/demo)."
    assert abstract_of(text) == "We sort lists. Code: [link] (see [link])."
