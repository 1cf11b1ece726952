"""What is served: a scorer with its options, models and direction, identified by a digest."""

import re
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, model_validator

from truthgym.datasets.digests import canonical_json
from truthgym.datasets.errors import BadInput, refuse_secrets
from truthgym.scorers.rubrics.rubric import Data, model_from
from truthgym.training.reward_functions.sources import CODE, model_sources, sources_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""Names of specifications in a folder: no separators, no leading dot."""


class RewardSpec(Data):
    """A reward by name and options, as `--reward` and `inspect score` take them."""

    scorer: str
    """A scorer's registered name; `graded` is short for `truthgym/graded`."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Its arguments, as behind `-S`."""
    roles: dict[str, Any] = Field(default_factory=dict)
    """By role the name of its model, or a mapping with `model`, `model_args` and generation settings."""
    reward: str = ""
    """SCORER, SCORER/KEY, or either with :lowest or :highest, as for `--reward`. Empty: the scorer."""
    unknown_prompt: Literal["error", "global"] = "error"
    """Of rubrics for single prompts or domains: whether another prompt has no reward, or that by the global rubric."""

    @model_validator(mode="before")
    @classmethod
    def _holds_no_key(cls, data: object) -> object:
        refuse_secrets("the specification", data)
        return data

    def identity(self) -> tuple[str, dict[str, str]]:
        """The SHA-256 of what is served, and the digests of what it is made of, wherever these files lie."""
        sources = sources_of(self.scorer, self.options)
        models = {
            role: [model_sources(model) for model in (value if isinstance(value, list | tuple) else [value])]
            for role, value in self.roles.items()
        }
        contents = {name: sorted(digests.values()) for name, digests in sources.items()}
        whole = {
            **self.model_dump(),
            "scorer": self.scorer.removeprefix("truthgym/"),
            "options": {name: contents.get(name, value) for name, value in self.options.items()},
            "models": {role: [sorted(part.values()) for part in parts] for role, parts in models.items()},
            "code": contents.get(CODE, []),
            "truthgym": version("truthgym"),
        }
        digest = sha256(canonical_json(whole).encode()).hexdigest()
        all_parts = [*sources.values(), *(part for parts in models.values() for part in parts)]
        made_of = {
            name if name.startswith("artifact:") else f"served:{Path(name).name}": content
            for part in all_parts
            for name, content in part.items()
        }
        return digest, made_of

    @property
    def digest(self) -> str:
        return self.identity()[0]


def named_spec(folder: Path, name: str) -> RewardSpec:
    """The specification NAME.json or NAME.yaml of a folder, which a name never leaves."""
    import yaml

    for path in (folder / f"{name}.json", folder / f"{name}.yaml") if NAME.fullmatch(name) else ():
        if path.is_file() and path.resolve().parent == folder.resolve():
            try:
                content = yaml.safe_load(path.read_text(encoding="utf-8"))
            except (OSError, ValueError, yaml.YAMLError, RecursionError) as error:
                raise BadInput(
                    f"{path} cannot be read as a specification ({type(error).__name__}); give JSON or YAML"
                ) from None
            return model_from(RewardSpec, content, str(path))
    raise BadInput(f"There is no specification {name[:100]!r}; give the name of a file in the folder --specs")
