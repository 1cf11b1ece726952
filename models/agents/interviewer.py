"""`reference/interviewer`: a simulated interviewer whose questions fit any subject and reveal nothing about it.

inspect eval truthgym/urns --solver truthgym/bootstrap_interview -S mode=llm_adaptive \
  --model reference/bayesian --model-role interviewer=reference/interviewer
"""

import re
from dataclasses import dataclass

from truthgym.models.agents.agent import Conversation, Reply, SimulatedAgent
from truthgym.models.agents.policies import generator

NAME = "interviewer"
PARAMETERS = frozenset({"seed"})
WANTED = re.compile(r"Write ([0-9]+) interview questions")
QUESTIONS = (
    "What do you go by when you know little of a thing?",
    "How much should a single observation move anyone?",
    "How would you notice that you had counted the same evidence twice?",
    "What would have to be so for the opposite to be the case?",
    "How often have you been this sure, and how often were you right?",
    "Which of the words in a question like this could be read in two ways?",
    "What would somebody who disagrees with you look at first?",
    "Where does the number come from that you would name first?",
)


@dataclass(frozen=True)
class Interviewer(SimulatedAgent):
    def reply(self, talk: Conversation) -> Reply:
        """The requested number of questions (one if the request names none), in an order drawn for each request."""
        match = WANTED.search(talk.text)
        number = int(match[1]) if match else 1
        order = generator(self.parameters.seed, NAME, talk.epoch, talk.text).permutation(len(QUESTIONS))
        return self.introduced("\n\n" + "\n".join(QUESTIONS[order[k % len(QUESTIONS)]] for k in range(number)))
