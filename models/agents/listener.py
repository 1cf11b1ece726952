r"""`reference/listener`: a simulated agent that hears the two clips of a question of `truthgym/audio`.

    inspect eval truthgym/audio --model reference/listener -M skill=1

It measures the fault that is asked about in both clips (`datasets.audio.acoustics`) and states

$$p=\sigma\big(s\,(m_1-m_2)/u\big)$$

with its `skill` s, the measures m and a unit u for each fault. Of the questions a share `loudness` is answered by which
clip is louder instead, which is a shortcut. Without clips it says one half. Its report has `noise`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from inspect_ai.model import ChatMessage, ContentAudio

from truthgym.datasets.audio import FAULTS, PROPOSITIONS, compared
from truthgym.datasets.errors import BadInput
from truthgym.models.agents.agent import Conversation, Reply, SimulatedAgent
from truthgym.models.agents.belief_reports import noisy
from truthgym.models.agents.policies import Parameters, uniform
from truthgym.models.agents.reading import MARKER

NAME = "listener"
PARAMETERS = frozenset({"skill", "noise", "loudness", "seed"})
UNITS = (0.4, 0.5, 0.5, 0.07)
"""Differences of the measures of `FAULTS` at which a listener of skill 1 has log-odds of 1."""
LEAST = 1e-4


@dataclass(frozen=True)
class Listener(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        stated = belief(talk.messages, talk.epoch, self.parameters)
        return self.introduced(f"\n\n\\{MARKER}{{{stated:.4f}}}")


def belief(messages: Sequence[ChatMessage], epoch: int, parameters: Parameters) -> float:
    text = "\n\n".join(message.text for message in messages)
    fault = next((i for i, name in enumerate(FAULTS) if PROPOSITIONS[name] in text), None)
    if fault is None:
        raise BadInput("reference/listener finds no question of truthgym/audio; use it for that task only")
    parts = (part for message in messages if not isinstance(message.content, str) for part in message.content)
    clips = [part.audio for part in parts if isinstance(part, ContentAudio)]
    if len(clips) not in (0, 2):
        raise BadInput(f"reference/listener compares two clips, and the conversation has {len(clips)}; give two")
    if not clips:
        return 0.5
    difference = compared(*clips)
    key = (parameters.seed, NAME, *clips, epoch)
    if uniform(*key, "loudness") < parameters.loudness:
        return 0.9 if difference[-1] > 0 else 0.1 if difference[-1] < 0 else 0.5
    p = 1 / (1 + math.exp(-max(min(parameters.skill * difference[fault] / UNITS[fault], 50.0), -50.0)))
    return float(noisy(min(max(p, LEAST), 1 - LEAST), parameters.noise, uniform(*key, "noise")))
