# %% [markdown]
# # A closed loop
#
# A tiny language model answers questions. Its answers become a dataset, a model is trained on it, and the trained model
# answers other questions. The model has few weights and trains for a few steps: this shows the parts, not progress.
# [The page on the loop](../../docs/loop.md) has a loop that learns.

# %%
from truthgym.training.tiny import tiny

model = tiny("trained/notebook", steps=60, overwrite=True)

# %% [markdown]
# One round of supervised training on the better half of its answers. The options are those of `truthgym loop`.

# %%
from truthgym.training.loop import loop

folder = loop(
    {
        "model_name_or_path": str(model),
        "task": "truthgym/urns",
        "task_args": {"n": 24, "paradigms": "brier"},
        "method": "sft",
        "epochs": 2,
        "held_out_epochs": 1,
        "max_tokens": 16,
        "max_connections": 32,
        "convert": {"top": 0.5},
        "train": {"max_steps": 2, "use_cpu": True, "report_to": "none"},
        "out": "loops/notebook",
    }
)

# %% [markdown]
# All files are in the folder, in the order of their names: logs, dataset, model, report.

# %%
print(*sorted(path.name for path in folder.iterdir()), sep="\n")

# %%
from IPython.display import Markdown

Markdown((folder / "report.md").read_text(encoding="utf-8"))
