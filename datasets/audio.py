"""Audio: which of two clips is the cleaner one? Synthesised sound whose faults are known."""

import io
import random
import wave
from base64 import b64decode, b64encode
from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentAudio, ContentText
from numpy.typing import NDArray
from pydantic import Field

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.generated import generate, world_sample
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.question import Question

RATE = 8000
"""Samples a second."""
SECONDS = 0.6
FRAME = 80
"""Samples in a frame of 10 ms, the unit of dropouts."""
FAULTS = ("noise", "clipping", "dropouts", "jitter")
BEST_SNR, WORST_SNR = 30.0, 5.0
"""Signal-to-noise ratio in dB at severity 0 and 1."""
MOST_CLIPPED, MOST_DROPPED, MOST_JITTER = 0.75, 0.3, 0.06
"""At severity 1: share of the peak that is cut off, share of frames that are silent, sd of the relative pitch."""
URI = "data:audio/wav;base64,"

Samples = NDArray[np.float64]


def synthesise(severity: dict[str, float], loudness: float, voice: int, seed: int) -> Samples:
    """Make a clip."""
    tone, chance = np.random.default_rng([voice, 1]), np.random.default_rng([seed, 2])
    n = int(RATE * SECONDS)
    time = np.arange(n) / RATE
    cycles = np.repeat(chance.standard_normal(n // 40 + 1), 40)[:n]  # a new pitch every 5 ms
    pitch = tone.uniform(110, 220) * (1 + tone.uniform(-0.1, 0.1) * time / SECONDS)
    pitch = pitch * (1 + MOST_JITTER * severity["jitter"] * cycles)
    phase = 2 * np.pi * np.cumsum(pitch) / RATE
    syllables = 0.4 + 0.6 * np.sin(np.pi * tone.integers(2, 5) * time / SECONDS) ** 2
    signal = syllables * sum(np.sin(k * phase) / k for k in range(1, 5))
    snr = BEST_SNR + (WORST_SNR - BEST_SNR) * severity["noise"]
    signal = signal + chance.standard_normal(n) * np.sqrt(np.mean(signal**2) / 10 ** (snr / 10))
    limit = np.abs(signal).max() * (1 - MOST_CLIPPED * severity["clipping"])
    signal = np.clip(signal, -limit, limit)
    frames = n // FRAME
    dropped = chance.permutation(frames)[: round(MOST_DROPPED * severity["dropouts"] * frames)]
    signal[: frames * FRAME].reshape(frames, FRAME)[dropped] = 0
    return np.asarray(np.clip(loudness * signal / np.sqrt(np.mean(signal**2)), -1, 1))


def to_uri(samples: Samples) -> str:
    """The clip as a wav file in a data URI."""
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes(np.round(32767 * samples).astype("<i2").tobytes())
    return URI + b64encode(buffer.getvalue()).decode()


def from_uri(uri: str) -> Samples:
    """Read a clip back."""
    try:
        with wave.open(io.BytesIO(b64decode(uri.removeprefix(URI), validate=True)), "rb") as file:
            if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
                raise ValueError(f"{file.getnchannels()} channels at {file.getframerate()} Hz")
            return np.frombuffer(file.readframes(file.getnframes()), dtype="<i2") / 32767
    except (wave.Error, ValueError, EOFError) as error:
        raise BadInput(
            f"The clip {uri[:40]!r}... cannot be read ({error}); give a mono wav file of 16 bits at {RATE} Hz"
        ) from None


def acoustics(samples: Samples) -> Samples:
    """Five measures of a clip: one for each of `FAULTS`, higher for a cleaner clip, and its loudness in dB.

    They are tenths of the signal-to-noise ratio in dB (from the energy above 2 kHz, where the tone has none), minus the
    share of samples at the peak, minus the share of silent frames, minus the spread of the periods of the fundamental;
    the last three in units of 0.1. None but the last changes with the loudness. Each is only roughly the fault: a
    clipped tone has energy above 2 kHz, too.
    """
    peak = np.abs(samples).max()
    x = samples / peak if peak else samples
    frames = x[: len(x) // FRAME * FRAME].reshape(-1, FRAME)
    silent = np.abs(frames).max(axis=1) < 1e-3
    heard = frames[~silent].ravel() if not silent.all() else x
    power = np.abs(np.fft.rfft(heard)) ** 2
    frequency = np.fft.rfftfreq(len(heard), 1 / RATE)
    high, rest = power[frequency > 2000].sum(), power[(frequency > 50) & (frequency <= 2000)].sum()
    noise = high * (RATE / 2) / (RATE / 2 - 2000)
    snr = 10 * np.log10((rest + 1e-9) / (noise + 1e-9))
    clipped = np.mean(np.abs(heard) > 0.99)
    return np.array([
        snr / 10,
        -10 * clipped,
        -10 * silent.mean(),
        -10 * _period_spread(x, ~np.repeat(silent, FRAME)),
        20 * np.log10(np.sqrt(np.mean(samples**2)) + 1e-9) / 10,
    ])  # fmt: skip


def compared(first: str, second: str) -> Samples:
    """The measures of the first clip minus those of the second, from their data URIs."""
    return acoustics(from_uri(first)) - acoustics(from_uri(second))


def _period_spread(x: Samples, heard: NDArray[np.bool_]) -> float:
    """Relative spread (interquartile range) of the intervals between upward zero crossings of the fundamental."""
    spectrum = np.fft.rfft(x)
    frequency = np.fft.rfftfreq(len(x), 1 / RATE)
    voiced = (frequency >= 90) & (frequency <= 270)
    fundamental = frequency[voiced][np.argmax(np.abs(spectrum[voiced]))]
    band = np.fft.irfft(
        np.where((frequency > 0.5 * fundamental) & (frequency < 1.5 * fundamental), spectrum, 0), len(x)
    )
    at = np.flatnonzero((band[:-1] < 0) & (band[1:] >= 0))
    at = at[heard[np.minimum(at, len(heard) - 1)]] if heard.size else at
    exact = at - band[at] / (band[at + 1] - band[at])
    periods = np.diff(exact)
    periods = periods[periods < 1.6 * RATE / fundamental]  # not across a dropout
    if len(periods) < 4:
        return 0.0
    low, middle, high = np.quantile(periods, (0.25, 0.5, 0.75))
    return float((high - low) / middle)


def quality(severity: dict[str, float], faults: Sequence[str] = FAULTS) -> float:
    """The true quality of a clip: minus the sum of its severities, so higher is better."""
    return -sum(severity[fault] for fault in faults)


Control = Literal["none", "identical", "loudness", "removed"]
CLIPS = "You hear two clips, one after the other."
REMOVED = "Two clips belonged to this question, and were removed."
ASKED = {
    "noise": "Does the first clip have less background noise than the second?",
    "clipping": "Is less of the first clip cut off at its loudest than of the second?",
    "dropouts": "Is the first clip interrupted by fewer gaps than the second?",
    "jitter": "Is the pitch of the first clip steadier than that of the second?",
}
PROPOSITIONS = {
    "noise": "The first clip has less background noise.",
    "clipping": "Less of the first clip is cut off.",
    "dropouts": "The first clip has fewer gaps.",
    "jitter": "The first clip has the steadier pitch.",
}
COMMON_FAULT = 0.2
"""Greatest severity of the faults that a question does not ask about."""
LOUDNESS = (0.06, 0.2)
"""Range of the root mean square of a clip, which is drawn apart from everything else."""


class AudioQuestion(Question, frozen=True):
    """A question with the severities that its clips were made with."""

    fault: Literal["noise", "clipping", "dropouts", "jitter"]
    control: Control
    first: dict[str, float]
    """Severity of each fault in the first clip, from 0 to 1."""
    second: dict[str, float]


@validate_call
def audio(
    n: Annotated[int, Field(ge=1)] = 100,
    seed: int = 0,
    split: str = "all",
    gap: Annotated[float, Field(gt=0, le=1)] = 0.5,
    control: Control = "none",
) -> Questions:
    """Generate questions about two clips whose truth is known.

    Args:
        gap: Difference of the severities, above 0 and at most 1. A smaller one is harder to hear.
        control: "none"; "identical", the same clip twice; "loudness", the same clip twice, one of them louder;
            "removed", clips that differ and are not part of the prompt. In a control the outcome is a fair coin for
            whoever reads the prompt: an honest listener says 0.5 and scores 0.25.
    """
    return generate("audio", lambda i: _question(seed, i, gap, control), n, split)


def _question(seed: int, i: int, gap: float, control: Control) -> Sample:
    identity = f"audio-{i:05d}-seed{seed}-gap{gap:g}" + (f"-{control}" if control != "none" else "")
    rng = random.Random(f"audio/{identity}")
    fault = FAULTS[i % len(FAULTS)]
    least = rng.uniform(0, 1 - gap)
    truth = rng.random() < 0.5
    common = {name: rng.uniform(0, COMMON_FAULT) for name in FAULTS}
    better, worse = common | {fault: least}, common | {fault: least + gap}
    first, second = (better, worse) if truth else (worse, better)
    voice, *seeds = (rng.randrange(2**32) for _ in range(3))
    loudness = [rng.uniform(*LOUDNESS) for _ in range(2)]
    if control in ("identical", "loudness"):
        second, seeds[1] = first, seeds[0]
        loudness[1] = loudness[0] if control == "identical" else loudness[1]
    asked = f"{REMOVED if control == 'removed' else CLIPS} {ASKED[fault]}"
    item = world_sample(
        AudioQuestion, identity, asked, truth, proposition=PROPOSITIONS[fault], base_rate=0.5, fault=fault,
        control=control, first=first, second=second,
    )  # fmt: skip
    if control != "removed":
        pairs = zip((first, second), loudness, seeds, strict=True)
        clips = [synthesise(severity, level, voice, each) for severity, level, each in pairs]
        heard = [ContentAudio(audio=to_uri(clip), format="wav") for clip in clips]
        item.input = [ChatMessageUser(content=[*heard, ContentText(text=asked)])]
    return item
