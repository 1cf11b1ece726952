"""The page on the validity of the progress tasks: its runs and tables, on few timelines."""

from truthgym.analysis.validity.progress import FOLLOWERS, NOISY, STEERERS, measured, run, shown


def test_a_table_has_a_row_for_each_agent() -> None:
    frame = run("follow", FOLLOWERS[:1], 1, "linear")
    assert frame["skill"].iloc[0] > 0.99
    text = shown(frame, "skill", "original_score")
    assert text.splitlines()[0] == "| agent | `skill` [95 % interval] | original_score |"
    assert text.splitlines()[2].startswith("| perfect follower | 1.000 [")


def test_agents_differ_by_name_and_policy() -> None:
    for setups in (FOLLOWERS, NOISY, STEERERS):
        assert len({setup.name for setup in setups}) == len(setups)
    refuses = measured("follow", FOLLOWERS[-1], 1, "linear")
    assert refuses["share_scored"] == 0


def test_noise_is_what_the_people_have() -> None:
    noisy = measured("follow", NOISY[0], 1, "linear")
    clean = measured("follow", FOLLOWERS[0], 1, "linear")
    assert noisy["snr"] < clean["snr"]
    assert noisy["reliability"] < clean["reliability"]
    assert noisy["skill"] < 0.99 < clean["skill"], "it learns from answers to other items"
