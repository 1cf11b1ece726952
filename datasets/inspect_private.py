"""Every private name of Inspect that Truthgym uses, with the reason. Nothing else imports from `inspect_ai._...`.

`tests/datasets/test_inspect_private.py` fails with one line for each name that a new Inspect moves or removes.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

PRIVATE = {
    "PrerequisiteError": "inspect_ai._util.error",  # the one error that Inspect prints without a traceback
    "create_file_tasks": "inspect_ai._eval.loader",  # makes the tasks of a file with arguments, as `inspect eval` does
    "evalset": "inspect_ai._eval",  # the module whose `eval_set` a sweep's units replace, with its capture of tasks
    "eval_resolve_tasks": "inspect_ai._eval.eval",  # makes the tasks of an eval, with its models and roles bound
    "load_file_tasks": "inspect_ai._eval.loader",  # registers the tasks of a file
    "load_tasks": "inspect_ai._eval.loader",  # makes all tasks of an eval with the same arguments
    "sample_id_filter": "inspect_ai._eval.task.util",  # selects questions by id; a sweep's shards replace it
    "SampleIdMatcher": "inspect_ai._eval.task.util",  # what it returns
    "eval_set_id_for_log_dir": "inspect_ai._eval.evalset",  # the id of the eval set in a folder, which a sweep must use
    "task_identifier": "inspect_ai._eval.evalset",  # pairs a task of an eval set with its logs
    "EVAL_SET_CAPTURE_VERSION": "inspect_ai._eval.eval_set_manifest",  # version of the list of an eval set's tasks
    "EVAL_SET_SELECTION_VERSION": "inspect_ai._eval.eval_set_selection",  # of the file that selects one of them
    "main": "inspect_ai._cli.main",  # `inspect`, for a sweep of `inspect eval-set ...`
    "solver_from_spec": "inspect_ai._eval.loader",  # makes the solver of `--solver NAME` or `--solver FILE.py`
    "view_server_app": "inspect_ai._view.fastapi_server",  # what the log viewer asks, for the page of `truthgym ui`
    "OnlyDirAccessPolicy": "inspect_ai._view.fastapi_server",  # which keeps it in one folder
    "resolve_dist_directory": "inspect_ai._view._dist",  # the viewer's files
    "read_content_security_policy": "inspect_ai._view._csp",  # what they may load
    "SampleBufferDatabase": "inspect_ai.log._recorders.buffer",  # samples that an eval has not yet written to its log
    "answer_character": "inspect_ai._util.answer",  # the letter of a choice
    "answer_options": "inspect_ai.solver._multiple_choice",  # the choices as Inspect shows them to a model
    "parse_answers": "inspect_ai.solver._multiple_choice",  # the letters that a reply names
    "set_choices_based_on_generated_response": "inspect_ai.solver._multiple_choice",  # marks them, for `choice`
    "parse_cli_args": "inspect_ai._util.config",  # reads -T NAME=VALUE as `inspect eval` does
    "parse_decorators": "inspect_ai._util.decorator",  # names the tasks of a file, as `inspect list tasks` does
    "registry_add": "inspect_ai._util.registry",  # registers a task that refuses arguments which it does not name
    "registry_info": "inspect_ai._util.registry",  # the registered name of a task or scorer
    "registry_lookup": "inspect_ai._util.registry",  # the function of a registered task, for its signature
    "registry_params": "inspect_ai._util.registry",  # the options of a scorer, for the files that they name
    "registry_unqualified_name": "inspect_ai._util.registry",  # the key under which a log holds a scorer's scores
    "task_state_from_sample": "inspect_ai._eval.score",  # what `inspect score` makes of a logged sample
    "init_runtime_context": "inspect_ai._eval.context",  # its limits on simultaneous calls, for a new event loop
    "sample_active": "inspect_ai.log._samples",  # which sample is calling the model
    "active_model": "inspect_ai.model._model",  # whether an eval is in progress, and with which model
    "active_generate_config": "inspect_ai.model._generate_config",  # its settings, for a copy of its model
    "init_model_roles": "inspect_ai.model._model",  # binds a grader's role outside of an eval
    "CacheEntry": "inspect_ai.model._cache",  # where a reply is cached, to remove one that could not be read
    "_pool": "inspect_ai.event",  # the digests of messages in a log, which half a character in a reply must not end
    "to_json_safe": "inspect_ai._util.json",  # as which Inspect writes such a text into the log
    "HuggingFaceAPI": "inspect_ai.model._providers.hf",  # base class of the policy in training; loads torch
    "HFHandler": "inspect_ai.model._providers.util.hf_handler",  # parses the tool calls in a local model's reply
}

if TYPE_CHECKING:
    from inspect_ai._cli.main import main as main
    from inspect_ai._eval import evalset as evalset
    from inspect_ai._eval.context import init_runtime_context as init_runtime_context
    from inspect_ai._eval.eval_set_manifest import EVAL_SET_CAPTURE_VERSION as EVAL_SET_CAPTURE_VERSION
    from inspect_ai._eval.eval_set_selection import EVAL_SET_SELECTION_VERSION as EVAL_SET_SELECTION_VERSION
    from inspect_ai._eval.evalset import eval_set_id_for_log_dir as eval_set_id_for_log_dir
    from inspect_ai._eval.evalset import task_identifier as task_identifier
    from inspect_ai._eval.loader import create_file_tasks as create_file_tasks
    from inspect_ai._eval.loader import load_file_tasks as load_file_tasks
    from inspect_ai._eval.loader import solver_from_spec as solver_from_spec
    from inspect_ai._eval.score import task_state_from_sample as task_state_from_sample
    from inspect_ai._util.answer import answer_character as answer_character
    from inspect_ai._util.config import parse_cli_args as parse_cli_args
    from inspect_ai._util.decorator import parse_decorators as parse_decorators
    from inspect_ai._util.error import PrerequisiteError as PrerequisiteError
    from inspect_ai._util.registry import registry_add as registry_add
    from inspect_ai._util.registry import registry_info as registry_info
    from inspect_ai._util.registry import registry_lookup as registry_lookup
    from inspect_ai._util.registry import registry_params as registry_params
    from inspect_ai._util.registry import registry_unqualified_name as registry_unqualified_name
    from inspect_ai._view._csp import read_content_security_policy as read_content_security_policy
    from inspect_ai._view._dist import resolve_dist_directory as resolve_dist_directory
    from inspect_ai._view.fastapi_server import OnlyDirAccessPolicy as OnlyDirAccessPolicy
    from inspect_ai._view.fastapi_server import view_server_app as view_server_app
    from inspect_ai.event import _pool as _pool
    from inspect_ai.log._recorders.buffer import SampleBufferDatabase as SampleBufferDatabase
    from inspect_ai.log._samples import sample_active as sample_active
    from inspect_ai.model import ChatMessage
    from inspect_ai.model._cache import CacheEntry as CacheEntry
    from inspect_ai.model._generate_config import active_generate_config as active_generate_config
    from inspect_ai.model._model import active_model as active_model
    from inspect_ai.model._model import init_model_roles as init_model_roles
    from inspect_ai.model._providers.hf import HuggingFaceAPI as HuggingFaceAPI
    from inspect_ai.model._providers.util.hf_handler import HFHandler as HFHandler
    from inspect_ai.solver import TaskState
    from inspect_ai.solver._multiple_choice import answer_options as answer_options
    from inspect_ai.solver._multiple_choice import parse_answers as parse_answers
    from inspect_ai.solver._multiple_choice import (
        set_choices_based_on_generated_response as set_choices_based_on_generated_response,
    )


def in_eval() -> bool:
    """Whether the caller makes a task of an eval that is about to start, with its models and roles already bound.

    `active_model()` does not tell: `eval_set` leaves the model and the roles of its last run in the caller's context.
    """
    return _variables_of("eval_resolve_tasks") is not None


def tasks_of_eval() -> list[str]:
    """The tasks, as the command names them, that Inspect is making with the same arguments. Empty outside of it."""
    return list((_variables_of("load_tasks") or {}).get("task_specs") or [])


def _variables_of(function: str) -> dict[str, Any] | None:
    """The variables of a private function of Inspect from which the caller is called; None if it is not."""
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        if frame.f_code.co_name == function and frame.f_globals.get("__name__") == PRIVATE[function]:
            return frame.f_locals
    return None


def survive_half_characters() -> None:
    """Have Inspect log a conversation in which a model wrote half a character, as in a tool's argument.

    Inspect 0.3.285 writes it, but cannot digest it, and ends the whole run.
    """
    from inspect_ai.event import _pool
    from pydantic_core import PydanticSerializationError

    digest = _pool._msg_hash

    def digest_any(message: "ChatMessage") -> str:
        try:
            return digest(message)
        except PydanticSerializationError:
            from inspect_ai._util.json import to_json_safe

            return digest(type(message).model_validate_json(to_json_safe(message)))

    _pool._msg_hash = digest_any  # type: ignore[assignment]


def hide_target(state: "TaskState") -> None:
    """Give a sample an empty target, so that a scorer that reads `state.target` does not see the truth."""
    from inspect_ai.scorer import Target

    assert isinstance(state._target, Target)
    state._target = Target("")


def __getattr__(name: str) -> object:
    """Import a name when it is first used: some of the modules load torch."""
    if name not in PRIVATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(PRIVATE[name]), name)
