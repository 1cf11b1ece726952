"""What Inspect's entry point loads: every task, solver and model provider. The tasks load the scorers."""

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
from truthgym.solvers.plan_and_execute import plan_and_execute
from truthgym.solvers.planner_team import planner_team
from truthgym.solvers.prepare import prepare
from truthgym.solvers.run_agent import run_agent
from truthgym.solvers.scratchpad import scratchpad
from truthgym.solvers.self_debate import self_debate
from truthgym.solvers.workers import workers
from truthgym.tasks.agent_bench_mini import agent_bench_mini, prepare_tools
from truthgym.tasks.almanac import almanac
from truthgym.tasks.audio import audio
from truthgym.tasks.cmv_binary import cmv_binary
from truthgym.tasks.cmv_freeform import cmv_freeform
from truthgym.tasks.code_repair import code_repair
from truthgym.tasks.conceptual import conceptual
from truthgym.tasks.cruxes import cruxes
from truthgym.tasks.disclosure import disclosure
from truthgym.tasks.fact_chains import fact_chains
from truthgym.tasks.forecasting import forecasting
from truthgym.tasks.gaia_mini import gaia_mini
from truthgym.tasks.intellectual import intellectual
from truthgym.tasks.interventions import interventions
from truthgym.tasks.mutual_prediction import mutual_prediction, predict_answers
from truthgym.tasks.openreview import openreview
from truthgym.tasks.preferences import label_pair, preferences
from truthgym.tasks.progress_coevolve import progress_coevolve
from truthgym.tasks.progress_follow import progress_follow
from truthgym.tasks.progress_predict import progress_predict
from truthgym.tasks.questions import questions
from truthgym.tasks.research import research
from truthgym.tasks.sycophancy import sycophancy
from truthgym.tasks.testimony import testimony
from truthgym.tasks.urns import urns
from truthgym.tasks.wildchat import wildchat
from truthgym.tasks.world_in_the_loop import world_in_the_loop

__all__ = [
    "agent_bench_mini",
    "almanac",
    "audio",
    "best_of_n",
    "bootstrap_interview",
    "chain_of_thought",
    "cmv_binary",
    "cmv_freeform",
    "code_repair",
    "code_repairer",
    "conceptual",
    "critique_revise",
    "cruxes",
    "dialogue",
    "direct",
    "disclosure",
    "fact_chains",
    "few_shot",
    "forecasting",
    "gaia_mini",
    "human",
    "intellectual",
    "interventions",
    "label_pair",
    "length_control",
    "mutual_prediction",
    "openreview",
    "plan_and_execute",
    "planner_team",
    "predict_answers",
    "preferences",
    "prepare",
    "prepare_tools",
    "progress_coevolve",
    "progress_follow",
    "progress_predict",
    "questions",
    "reference",
    "research",
    "run_agent",
    "scratchpad",
    "self_debate",
    "sycophancy",
    "testimony",
    "urns",
    "wildchat",
    "workers",
    "world_in_the_loop",
]
