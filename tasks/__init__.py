"""What Inspect's entry point loads: every task, solver, scorer and model provider, by name."""

from truthgym.models.reference import reference
from truthgym.scorers.brier import brier
from truthgym.scorers.martingale import martingale
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.direct import direct
from truthgym.solvers.prepare import prepare
from truthgym.tasks.forecasting import forecasting
from truthgym.tasks.urns import urns

__all__ = ["brier", "chain_of_thought", "direct", "forecasting", "martingale", "prepare", "reference", "urns"]
