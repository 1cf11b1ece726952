"""What a scorer's numbers come from besides its options: artifacts, files and models, by digest."""

from collections.abc import Mapping
from inspect import getsourcefile, unwrap
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import registry_lookup
from truthgym.scorers.rubrics.reward import read_artifact
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.training.lineage import digest_of

CODE = ""
"""In place of an argument's name: what the scorer's own code is found under."""


def sources_of(scorer: str, options: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """By argument of a scorer, the digests of what it names: artifacts by id, anything else by path."""
    declaration = SCORER_BY_NAME.get(scorer.removeprefix("truthgym/"))
    if declaration is None:
        return _code(scorer)
    return {argument: dict(map(_source, paths)) for argument, paths in declaration.files(**options).items()}


def _code(scorer: str) -> dict[str, dict[str, str]]:
    function: Any = registry_lookup("scorer", scorer)
    if function is None or unwrap(function).__module__.startswith("inspect_ai."):
        return {}
    try:
        file = Path(getsourcefile(unwrap(function)) or "")
    except TypeError:  # it is made of no Python code
        return {}
    return {CODE: {str(file): digest_of(file)}} if file.is_file() else {}


def model_sources(model: object) -> dict[str, str]:
    """The digest of a model's folder, if it is a local one (`hf/FOLDER`); of a mapping, of the model that it names."""
    name = model.get("model") if isinstance(model, Mapping) else model
    folder = str(name).partition("/")[2]
    return dict([_source(Path(folder))]) if folder and len(folder) < 255 and Path(folder).is_dir() else {}


def _source(path: Path) -> tuple[str, str]:
    try:
        if not path.exists():
            raise BadInput(f"{path} does not exist; give a file or folder that does")
        if path.suffix == ".json":
            artifact = read_artifact(str(path))
            return f"artifact:{artifact.artifact_id}", artifact.digest_of_content.removeprefix("sha256:")
    except OSError as error:
        raise BadInput(f"{str(path)[:80]} cannot be read ({error.strerror})") from None
    except BadInput:
        if not path.exists():
            raise
    return str(path), digest_of(path)
