# %% [markdown]
# # From a log to a figure
#
# Two simulated agents answer the same questions. Their logs become a table, a chart, and a comparison.

# %%
from inspect_ai import eval

from truthgym.tasks import urns

agents = ["reference/bayesian", "reference/entrenched"]
logs = eval(urns(n=40), model=agents, model_args={"noise": 0.05}, epochs=2, log_dir="logs/figure", display="none")

# %% [markdown]
# Each log has at most ten figures of each scorer. `evals_df` reads those of a whole folder into pandas.

# %%
from inspect_ai.analysis import evals_df

evals_df("logs/figure", quiet=True).filter(regex="^model$|martingale_score$|_lower$|_upper$")

# %% [markdown]
# The paths of the beliefs: where an agent stood before the evidence, and where after it.

# %%
from truthgym.analysis import belief_paths

frame = belief_paths.load(["logs/figure"])
belief_paths.chart(frame)

# %% [markdown]
# The interval of the difference is taken question by question. For the slope, closer to 0 is better. `mde` is the
# smallest difference that a run of this size finds with probability 0.8.
# An interval that contains 0 does not show that the agents are equal.

# %%
from truthgym.analysis.compare import compare

table = compare([log.location for log in logs])
table[["model", "score", "before", "after", "difference", "lower", "upper", "mde"]]
