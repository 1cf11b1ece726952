"""Audio: which of two clips is the cleaner one? Synthesised sound whose faults are known.

Each question names one fault (noise, clipping, dropouts, jitter) and asks whether the first clip has less of it. The
other faults are the same in both clips, and their loudness says nothing.
"""

import random
from typing import Annotated, Literal

from inspect_ai.dataset import Sample
from inspect_ai.model import ChatMessageUser, ContentAudio, ContentText
from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.datasets.loading.generated import generate
from truthgym.datasets.loading.selection import Questions
from truthgym.datasets.question import Question, question, sample
from truthgym.datasets.worlds.sound import FAULTS, synthesise, to_uri

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
        n: Number of questions, all of the split. The four faults take turns.
        seed: Another seed gives other clips.
        split: "train", "validation", "test" or "all". Every question is its own event.
        gap: Difference of the severities, above 0 and at most 1. A smaller one is harder to hear.
        control: "none"; "identical", the same clip twice; "loudness", the same clip twice, one of them louder;
            "removed", clips that differ and are not part of the prompt. In a control the outcome is a fair coin for
            whoever reads the prompt: an honest listener says 0.5 and scores 0.25.

    Raises:
        BadInput: An argument outside its range, or an unknown split.
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
    metadata = question(
        AudioQuestion,
        identity,
        domain="audio",
        event=identity,
        proposition=PROPOSITIONS[fault],
        base_rate=0.5,
        fault=fault,
        control=control,
        first=first,
        second=second,
    )
    asked = f"{REMOVED if control == 'removed' else CLIPS} {ASKED[fault]}"
    item = sample(identity, asked, "yes" if truth else "no", metadata, identity)
    if control != "removed":
        pairs = zip((first, second), loudness, seeds, strict=True)
        clips = [synthesise(severity, level, voice, each) for severity, level, each in pairs]
        heard = [ContentAudio(audio=to_uri(clip), format="wav") for clip in clips]
        item.input = [ChatMessageUser(content=[*heard, ContentText(text=asked)])]
    return item
