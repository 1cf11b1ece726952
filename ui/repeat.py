"""A script that runs an eval again, from its log: the same task, model, roles, settings and limits.

python -m truthgym.ui.repeat LOG > repeat.py
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from pprint import pformat
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.redaction import redact, redacted
from truthgym.evallog.errors import MALFORMED
from truthgym.evallog.reader import LogReader

SAME = (
    "limit", "sample_id", "sample_shuffle", "epochs", "fail_on_error", "retry_on_error", "message_limit", "token_limit",
    "time_limit", "working_limit", "cost_limit", "max_samples", "max_tasks", "score_display",
)  # fmt: skip
"""Settings in a log's header that `eval` takes under the same name."""
SCRIPT = '''"""Runs again what a log records.

python THIS_FILE [LOG_DIR]
"""
# {origin}

import sys

from inspect_ai import eval
{imports}
if __name__ == "__main__":
    eval(
{arguments}
        log_dir=sys.argv[1] if len(sys.argv) > 1 else "logs",
    )
'''


def repeat(log: str | Path, folder: Path | None = None) -> str:
    """A script that runs again what a log records, without keys, prices and changed code; it names the commit."""
    from inspect_ai.log import read_eval_log

    if not Path(log).is_file():
        raise BadInput(f"There is no log {log}; choose one in the list of results")
    LogReader(log).close()  # says what is wrong with a file that is no log
    try:
        spec = read_eval_log(str(log), header_only=True).eval
    except MALFORMED as error:  # a damaged member, for example
        reason = str(error).partition("\n")[0]
        raise BadInput(f"{Path(log).name} cannot be read as a log ({reason}); give an .eval or .json log") from None
    if not spec.task_file and not spec.task_registry_name:
        raise BadInput(
            f"{Path(log).name}: its task {spec.task} was made in Python, and the log names no file of it; put it into "
            "a file under @task, and run it by `inspect eval FILE.py`"
        )
    task = f"{spec.task_file}@{spec.task}" if spec.task_file else spec.task_registry_name or spec.task
    settings: dict[str, Any] = {"tasks": task, "task_args": spec.task_args_passed or {}}
    settings |= {name: getattr(spec, name) for name in ("model", "model_base_url", "model_args", "tags", "metadata")}
    imports, names = set[str](), {}
    if spec.solver:
        imports.add("from inspect_ai.solver import SolverSpec")
        names["solver"] = f"SolverSpec({spec.solver!r}, {_text(spec.solver_args_passed or spec.solver_args or {})})"
    if spec.model_roles:
        imports.add("from inspect_ai.model import GenerateConfig, get_model")
        names["model_roles"] = _roles(spec.model_roles)
    config = spec.config.model_dump(exclude_none=True)
    settings |= {name: config[name] for name in SAME if name in config}
    settings |= spec.model_generate_config.model_dump(exclude_none=True)
    lines = [f"{name}={_text(value)}" for name, value in redacted(settings).items() if value not in (None, {}, [])]
    lines += [f"{name}={value}" for name, value in names.items()]
    revision = f"; it ran at commit {spec.revision.commit}" if spec.revision else ""
    arguments = "\n".join(f"        {line},".replace("\n", "\n        ") for line in lines)
    origin = " ".join(f"{Path(log).name}{revision}".split())  # on one line, whatever the log says
    text = SCRIPT.format(origin=origin, imports="\n".join([*sorted(imports), ""]), arguments=arguments)
    return redact(text, folder or Path(log).parent)


def _text(value: object) -> str:
    return pformat(redacted(value), width=90, sort_dicts=False)


def _roles(roles: Mapping[str, Any]) -> str:
    """Roles as an expression."""

    def model(role_model: Any) -> str:  # noqa: ANN401
        settings = role_model.config.model_dump(exclude_none=True)
        config = f", config=GenerateConfig(**{redacted(settings)!r})" if settings else ""
        base = f", base_url={role_model.base_url!r}" if role_model.base_url else ""
        args = f", **{redacted(role_model.args)!r}" if role_model.args else ""
        return f"get_model({role_model.model!r}{config}{base}{args})"

    texts = {
        role: f"[{', '.join(map(model, models))}]" if isinstance(models, list) else model(models)
        for role, models in roles.items()
    }
    return "{" + ", ".join(f"{role!r}: {text}" for role, text in texts.items()) + "}"


if __name__ == "__main__":
    print(repeat(sys.argv[1]), end="")
