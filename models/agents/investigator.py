"""`reference/investigator`: a simulated investigator that finds out how a question ended, without a tool."""

import json
from dataclasses import dataclass

from truthgym.datasets.evidence import OUTCOME_TASK, OUTCOMES
from truthgym.datasets.question import ASKED
from truthgym.models.agents.agent import Conversation, Reply, SimulatedAgent
from truthgym.models.agents.policies import uniform

NAME = "investigator"
PARAMETERS = frozenset({"accuracy", "seed"})
PROPOSES = "Propose "
"""How the request for tasks begins after the question; any other request is for a report."""


@dataclass(frozen=True)
class Investigator(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        """The task, or the report, as JSON."""
        asked = ASKED.get()
        proposition = asked.question.proposition if asked and asked.outcome in (0, 1) else None
        if f"\n\n{PROPOSES}" in talk.request:
            return json.dumps({"tasks": [OUTCOME_TASK.format(proposition=(proposition or "Anything.").strip())]})
        if asked is None or proposition is None:
            return json.dumps({"found": False, "observation": "", "recorded": ""})
        right = uniform(NAME, self.parameters.seed, asked.id) < self.parameters.accuracy
        report = OUTCOMES["yes" if (asked.outcome == 1) == right else "no"]
        return json.dumps({"found": True, "observation": report, "recorded": "the question's outcome (simulated)"})
