"""What Inspect's entry point loads: every task, solver and model provider. The tasks load the scorers."""

from truthgym.datasets.inspect_private import survive_half_characters
from truthgym.models.human import human
from truthgym.models.reference import reference
from truthgym.solvers.best_of_n import best_of_n
from truthgym.solvers.bootstrap_interview import bootstrap_interview
from truthgym.solvers.chain_of_thought import chain_of_thought
from truthgym.solvers.code_repairer import code_repairer
from truthgym.solvers.critique_revise import critique_revise
from truthgym.solvers.dialogue import dialogue
from truthgym.solvers.direct import direct
from truthgym.solvers.few_shot import few_shot
from truthgym.solvers.length_control import length_control
from truthgym.solvers.planners import plan_and_execute, planner_team
from truthgym.solvers.prepare import prepare
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.scratchpad import scratchpad
from truthgym.solvers.self_debate import self_debate
from truthgym.solvers.workers import workers
from truthgym.tasks.agents import agent_bench_mini, code_repair, fact_chains, gaia_mini, prepare_tools
from truthgym.tasks.domains import (
    cmv_binary,
    cmv_freeform,
    conceptual,
    forecasting,
    intellectual,
    openreview,
    questions,
    research,
    wildchat,
)
from truthgym.tasks.mutual_prediction import mutual_prediction, predict_answers
from truthgym.tasks.preferences import label_pair, preferences
from truthgym.tasks.progress import progress_coevolve, progress_follow, progress_predict
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.world_in_the_loop import world_in_the_loop
from truthgym.tasks.worlds import almanac, audio, cruxes, disclosure, interventions, testimony, urns

survive_half_characters()

__all__ = [
    "agent_bench_mini", "almanac", "audio", "best_of_n", "bootstrap_interview", "chain_of_thought", "cmv_binary",
    "cmv_freeform", "code_repair", "code_repairer", "conceptual", "critique_revise", "cruxes", "dialogue",
    "direct", "disclosure", "fact_chains", "few_shot", "forecasting", "gaia_mini", "human", "intellectual",
    "interventions", "label_pair", "length_control", "mutual_prediction", "openreview", "plan_and_execute",
    "planner_team", "predict_answers", "preferences", "prepare", "prepare_tools", "progress_coevolve",
    "progress_follow", "progress_predict", "questions", "reference", "research", "run_agent", "scratchpad",
    "self_debate", "sycophancy", "testimony", "urns", "wildchat", "workers", "world_in_the_loop",
]  # fmt: skip
