# %% [markdown]
# # A known-truth agent of your own
#
# A measure can be trusted as far as it finds what was planted. This agent is a function of the conversation. It knows
# the exact posterior of each question of `urns`, and reports a belief that is a fifth of the way back to one half: it
# hedges. Its priors are exact. A rational update is 0 on average at every prior, so the regression of this agent's
# updates on its priors has the slope -0.2. No report is clipped at 0 or 1: clipping would change the slope.

# %%
from collections.abc import Sequence

from inspect_ai.model import ChatMessage, ModelOutput, ModelUsage, get_model

from truthgym.datasets.urns import urns as questions

HEDGE = 0.2
posteriors = {str(question.input): (question.metadata or {})["posterior"] for question in questions(n=100)}


def hedging(messages: Sequence[ChatMessage], *_: object) -> ModelOutput:
    """Answer any request about a question: a probability, or a whole number from 0 to 100."""
    text = "\n".join(message.text for message in messages)
    before, *_, after = next(values for question, values in posteriors.items() if question in text)
    belief = after + HEDGE * (0.5 - after) if "Evidence so far" in text else before
    percent = "whole number from 0 to 100" in messages[-1].text
    answer = f"{100 * belief:.0f}" if percent else f"\\finalBeliefProb{{{belief:.4f}}}"
    output = ModelOutput.from_content("mockllm/hedging", answer)
    output.usage = ModelUsage()
    return output


# %% [markdown]
# Any task takes it as a model.

# %%
from inspect_ai import eval

from truthgym.tasks import urns

agent = get_model("mockllm/hedging", custom_outputs=hedging)
(log,) = eval(urns(n=100, paradigms="martingale"), model=agent, epochs=2, log_dir="logs/own_agent", display="none")

# %% [markdown]
# Is the planted slope in the interval? The run is the same each time.

# %%
assert log.results
figures = {name: metric.value for name, metric in log.results.scores[0].metrics.items()}
lower, upper = figures["martingale_score_lower"], figures["martingale_score_upper"]
print(f"planted {-HEDGE}, measured {figures['martingale_score']:.3f}, interval {lower:.3f} to {upper:.3f}")
assert lower < -HEDGE < upper
