"""Audio: the truth is in the clips, the controls leave nothing to hear, and the reward model finds what was planted."""

from typing import Any

import numpy as np
import pytest
from inspect_ai.model import ContentAudio, get_model

from studies.training import audio_reward
from tests.fixtures import Run, metrics
from truthgym.datasets.audio import FAULTS, RATE, AudioQuestion, acoustics, audio, from_uri, synthesise, to_uri
from truthgym.datasets.errors import BadInput
from truthgym.tasks import audio as task

CLEAN = dict.fromkeys(FAULTS, 0.0)


def clips(item: Any) -> list[str]:
    return [part.audio for part in item.input[0].content if isinstance(part, ContentAudio)]


def test_the_noise_of_a_clip_is_what_is_stated() -> None:
    quiet, loud = (synthesise(CLEAN | {"noise": severity}, 0.1, voice=3, seed=4) for severity in (0.0, 1.0))
    # Above 2 kHz there is only noise: white, so half of its power. At 5 dB it is 25 dB more than at 30 dB, relative to
    # the tone, which is 10**(-5/10) of the whole louder in the first.
    power = [
        float((np.abs(np.fft.rfft(x)[np.fft.rfftfreq(len(x), 1 / RATE) > 2000]) ** 2).sum()) for x in (quiet, loud)
    ]
    whole = [1 + 10 ** (-snr / 10) for snr in (30, 5)]
    expected = 25 - 10 * np.log10(whole[1] / whole[0])
    assert 10 * np.log10(power[1] / power[0]) == pytest.approx(expected, abs=0.5)


@pytest.mark.parametrize("fault", FAULTS)
def test_each_measure_hears_its_fault_and_not_the_loudness(fault: str) -> None:
    k = FAULTS.index(fault)
    means = []
    for severity in (0.1, 0.5, 0.9):
        made = [synthesise(CLEAN | {fault: severity}, 0.1, voice=i, seed=i) for i in range(6)]
        means.append(np.mean([acoustics(clip)[k] for clip in made]))
        assert acoustics(2 * made[0])[k] == pytest.approx(acoustics(made[0])[k], abs=1e-6)
        assert acoustics(2 * made[0])[-1] - acoustics(made[0])[-1] == pytest.approx(0.602, abs=1e-3), "6.02 dB"
    assert means[0] > means[1] > means[2]
    dropped = synthesise(CLEAN | {"dropouts": 1.0}, 0.1, voice=1, seed=1)
    assert acoustics(dropped)[2] == pytest.approx(-10 * 18 / 60), "0.3 of 60 frames"


def test_a_clip_survives_its_file() -> None:
    clip = synthesise(CLEAN, 0.1, voice=1, seed=2)
    assert np.abs(from_uri(to_uri(clip)) - clip).max() < 1 / 32767
    with pytest.raises(BadInput, match="give a mono wav file"):
        from_uri("data:audio/wav;base64,AAAA")


def test_questions_differ_in_the_asked_fault_alone() -> None:
    items = list(audio(n=40))
    yes = 0
    for item in items:
        known = item.metadata_as(AudioQuestion)
        gap = known.second[known.fault] - known.first[known.fault]
        assert abs(gap) == pytest.approx(0.5)
        assert item.target == ("yes" if gap > 0 else "no")
        assert {name: known.first[name] - known.second[name] for name in FAULTS if name != known.fault} == {
            name: 0 for name in FAULTS if name != known.fault
        }
        yes += item.target == "yes"
    assert 10 < yes < 30
    assert [item.metadata_as(AudioQuestion).fault for item in items[:4]] == list(FAULTS)
    assert [clips(item) for item in audio(n=3)] == [clips(item) for item in items[:3]]


def test_controls_leave_nothing_to_hear() -> None:
    for item in audio(n=8, control="identical"):
        assert len(set(clips(item))) == 1
    for item in audio(n=8, control="loudness"):
        first, second = map(from_uri, clips(item))
        ratio = np.sqrt(np.mean(first**2) / np.mean(second**2))
        assert abs(np.log(ratio)) > 0.01
        assert np.abs(first - ratio * second).max() < 2e-4, "the same clip, louder"
    for item in audio(n=2, control="removed"):
        assert isinstance(item.input, str)
        assert "removed" in item.input


def brier(run: Run, control: Any = "none", n: int = 8, **planted: Any) -> float:
    log = run(task(n=n, control=control), get_model("reference/listener", **planted), epochs=1)
    found = metrics(log)
    assert found["share_scored"] == 1
    return found["brier"]


def test_a_listener_hears_and_controls_are_worth_a_quarter(run: Run) -> None:
    assert brier(run) < 0.06
    for control in ("identical", "removed"):
        assert brier(run, control, n=4) == 0.25, control
    assert brier(run, "loudness", n=4) == pytest.approx(0.25, abs=0.01), "16 bits round a louder clip in another way"


def test_a_listener_that_goes_by_loudness_is_found_out(run: Run) -> None:
    # It states 0.9 or 0.1, of which each is right or wrong: 0.01 k/8 + 0.81 (8 - k)/8 with k right.
    right = (0.81 - brier(run, "loudness", loudness=1)) / 0.8 * 8
    assert right == pytest.approx(round(right), abs=1e-3)
    assert right < 6, "worse than 0.25"


@pytest.mark.parametrize(
    ("arguments", "message"), [({"gap": 0}, "gap=0 cannot be used"), ({"control": "mute"}, "control='mute' cannot be")]
)
def test_audio_refuses(arguments: Any, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        audio(**arguments)


def test_the_acoustic_reward_model_recovers_quality_and_shows_bad_labels() -> None:
    found = audio_reward.figures(n=300, held_out=200, seed=0)
    clean, wrong, louder = (found[labels] for labels in audio_reward.LABELS)
    assert clean["accuracy"] > 0.8
    assert clean["Brier"] < wrong["Brier"] < 0.25, "wrong labels cost calibration first"
    assert abs(clean["louder"]) < 0.4 < louder["louder"], "a reward model of labels by loudness can be exploited"
