"""What a run must provide: a server that answers, models in roles, and a sandbox that isolates."""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from socket import create_connection
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import yaml
from inspect_ai.model import Model, get_model, model_roles
from inspect_ai.util import SandboxEnvironment, sandbox

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.solvers.local_model import check_local_model

CONNECT_TIMEOUT = 5.0
"""Seconds in which a server may accept a connection before the run starts all the same."""
_tried: set[str] = set()
"""Addresses of servers, so that each is tried once."""


def required_server(model: Model) -> None:
    """Refuse a model whose server accepts no connection: Inspect would try again, without an end by default."""
    address = model.api.base_url
    parts = urlsplit(address or "")
    if not address or address in _tried or not parts.hostname:
        return
    if parts.scheme in getproxies() and not proxy_bypass(parts.hostname):
        return
    try:
        create_connection(
            (parts.hostname, parts.port or (443 if parts.scheme == "https" else 80)), CONNECT_TIMEOUT
        ).close()
    except TimeoutError:
        pass
    except OSError as error:
        raise BadInput(
            f"{model}: no server answers at {address} ({error.strerror}); start it, or correct the address in "
            "--model-base-url or the environment (docs/models.md)"
        ) from None
    _tried.add(address)


def required_model(role: str, solver: str | None = None, alone: bool = False) -> Model:
    """The model bound to a role, the first of several unless it takes one `alone`; never the evaluated model."""
    bound = model_roles().get(role)
    several = bound if isinstance(bound, list) else []
    fingerprints = [model_fingerprint(model) for model in several]
    twice = next((str(m) for m, f in zip(several, fingerprints, strict=True) if fingerprints.count(f) > 1), None)
    if twice:
        raise BadInput(
            f"The role {role} has {twice} twice: it would agree with itself, and that would count as agreement "
            "between two models; bind different models, or one with different arguments"
        )
    if alone and isinstance(bound, list) and len(bound) > 1:
        raise BadInput(
            f"The role {role} has {len(bound)} models, and a grade comes from one; bind one, or use "
            "truthgym/qualitative, which takes several judges"
        )
    try:
        model = get_model(role=role, required=True)
    except PrerequisiteError:
        who = f"The solver {solver}" if solver else "A scorer of this task"
        also = "" if solver else " (also to inspect score: a log does not store the roles of a later scoring)"
        raise BadInput(
            f"{who} needs the role {role}, and no model has it; add --model-role {role}=MODEL{also}"
        ) from None
    check_local_model(model)
    return model


def model_fingerprint(model: Model) -> str:
    """Identifies a model in a role: name, base URL, arguments and generation settings such as the temperature."""
    settings = sorted(model.config.model_dump(exclude_none=True).items())
    arguments = sorted((name, repr(value)) for name, value in model.model_args.items())
    return repr((str(model), model.api.base_url, arguments, settings))


async def required_python() -> None:
    """Refuse a sandbox for programs, the one named "grader" if there is one, without `python3`."""
    if not (await program_sandbox().exec(["python3", "--version"], timeout=60)).success:
        raise BadInput(
            "The sandbox has no python3, and a grader of this task runs a program in it; use an image with it"
        )


def program_sandbox() -> SandboxEnvironment:
    """The sandbox for programs. A model with tools in the default one may have changed its files."""
    try:
        return sandbox("grader")
    except ValueError:
        return sandbox()


TRUSTED = (
    "start the run with --sandbox docker (or another that isolates), or, if you wrote the program yourself, set "
    "trusted=true; inspect score has no sandbox, so it always needs trusted=true"
)


def required_sandbox(who: str = "A grader of this task", remedy: str = TRUSTED) -> None:
    """Refuse to run an untrusted program unless the sample has a sandbox that isolates it."""
    try:
        place = sandbox()
    except ProcessLookupError:
        raise BadInput(f"{who} runs an untrusted program, and there is no sandbox; {remedy}") from None
    # The class has no public name, but its base class lists it.
    for kind in SandboxEnvironment.__subclasses__():
        with suppress(TypeError):
            if kind.__name__ == "LocalSandboxEnvironment" and place.as_type(kind):
                raise BadInput(f"{who} runs an untrusted program, and the sandbox `local` isolates nothing; {remedy}")


def models_named(names: Iterable[str]) -> list[str]:
    """The models that an option names, divided by commas. A YAML file stands for its list, `models: [NAME, ...]`.

    Raises:
        BadInput: A file is not there or has no such list.
    """
    found: list[str] = []
    for name in (part.strip() for text in names for part in text.split(",")):
        if not name.endswith((".yaml", ".yml")):
            found.append(name)
            continue
        try:
            listed = yaml.safe_load(Path(name).read_text(encoding="utf-8"))["models"]
        except (OSError, ValueError, TypeError, KeyError, yaml.YAMLError):
            listed = None
        if not listed or not isinstance(listed, list):
            raise BadInput(f"{name} has no list of models; write `models: [NAME, ...]` in that file")
        found += map(str, listed)
    return found
