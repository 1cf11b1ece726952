"""A rubric reward: rubrics with all that decides a score, and the artifact in which it is shipped.

An artifact is a JSON file with the digest of its content. Its id is taken from the digest, so that two artifacts with
one id have the same content, and a changed byte is found.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from inspect_ai.model import GenerateConfig, Model, get_model
from pydantic import Field, ValidationError, model_validator

from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.datasets.question import Text
from truthgym.scorers.judges.rubric import read_text
from truthgym.scorers.rubrics.extraction import Extraction
from truthgym.scorers.rubrics.prompts import PROMPTS, Language, check_template
from truthgym.scorers.rubrics.rubric import Data, Rubric, check_places, model_from, read_json, rubrics_in

ID = r"^rm-[0-9a-f]{12}$"
SECRET_WORDS = {"key", "apikey", "token", "secret", "password", "passwd", "auth", "authorization", "credential"}
SECRET_VALUE = re.compile(r"(sk-|Bearer |hf_\w{8}|ghp_|AKIA)|.*://[^/@\s]*:[^/@\s]*@", re.DOTALL)
"""How keys of well-known providers begin, and an address with a password."""


def refuse_secrets(where: str, value: object) -> None:
    """Refuse settings of a model with what looks like a key, by its name or its form: they are written to files."""
    for name, one in value.items() if isinstance(value, Mapping) else []:
        words = re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1 \2", str(name)).lower())
        if SECRET_WORDS & {word.removesuffix("s") for word in words if word != "tokens"} and isinstance(one, str):
            raise _secret(where, name)
        if isinstance(one, str) and SECRET_VALUE.match(one):
            raise _secret(where, name)
        refuse_secrets(f"{where}, {name}", one)
    for one in value if isinstance(value, list | tuple) else []:
        refuse_secrets(where, one)


def _secret(where: str, name: object) -> Exception:
    return BadInput(
        f"{where}: {name} looks like a key, which would be written to files; set the environment variable of the "
        "model's provider instead"
    )


class ModelSpec(Data):
    """A model, as `--model-role` names it. Settings of generation stand beside its arguments, or in `config`."""

    model: Text
    model_args: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of generation, such as the temperature."""

    @model_validator(mode="before")
    @classmethod
    def _holds_no_key(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        refuse_secrets(f"model {data.get('model')}", data)
        settings = {name: one for name, one in data.items() if name in GenerateConfig.model_fields}
        config = {**(data.get("config") or {}), **settings}
        unknown = next((name for name in config if name not in GenerateConfig.model_fields), None)
        if unknown:
            raise ValueError(f"{unknown} is no setting of generation; see `inspect eval --help`")
        return {name: one for name, one in data.items() if name not in settings} | (
            {"config": config} if config else {}
        )

    def load(self, **settings: Any) -> Model:  # noqa: ANN401
        """The model, from Inspect. Environment variables hold its key, never this."""
        try:
            config = GenerateConfig(**settings | self.config)
            return get_model(self.model, config=config, memoize=not settings, **self.model_args)
        except PrerequisiteError:
            raise
        except ValidationError as error:
            first = error.errors()[0]
            raise BadInput(f"model {self.model}: {first['loc'][0]} cannot be used: {first['msg']}") from None
        except Exception as error:  # a provider may raise anything
            raise BadInput(f"model {self.model} cannot be made ({type(error).__name__}: {error})"[:500]) from None


class Protocol(Data):
    """How a judge applies a rubric."""

    votes: int = Field(default=1, ge=1, le=25)
    """Calls of each judge for one answer. The score is their mean."""
    language: Language = "en"
    template: str = ""
    """The judge's request; empty for that of the language."""
    judged: Literal["answer", "trajectory"] = "answer"
    extraction: Extraction = Extraction()
    """The part of it that is judged."""

    @model_validator(mode="after")
    def _has_a_template(self) -> Self:
        if not self.template:
            object.__setattr__(self, "template", PROMPTS[self.language].template)
        return self


class RubricReward(Data):
    """Rubrics, the protocol and the judges: all that decides a score."""

    rubrics: Annotated[tuple[Rubric, ...], Field(min_length=1)]
    protocol: Protocol = Protocol()
    judges: tuple[ModelSpec, ...] = ()
    """The judges that it was made with; empty if only a run names them."""


class Content(Data):
    """What an artifact contains."""

    format: Literal["truthgym.rubric/1"] = "truthgym.rubric/1"
    reward: RubricReward
    source: dict[str, Any] = Field(default_factory=dict)
    """Digests of what it was made from: the search, its data set and configuration, the commit."""
    card: dict[str, Any] = Field(default_factory=dict)
    """What was measured of it, such as the standard deviation of a repeated score."""


class Artifact(Data):
    """A rubric reward as a file."""

    artifact_id: Annotated[str, Field(pattern=ID)]
    digest_of_content: Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
    content: Content

    @classmethod
    def of(cls, content: Content) -> Self:
        """The artifact with this content."""
        return cls(
            artifact_id=f"rm-{content.digest[:12]}", digest_of_content=f"sha256:{content.digest}", content=content
        )

    def check(self, where: str) -> Self:
        """Check that the content has the digest and the id that the file names."""
        actual = f"sha256:{self.content.digest}"
        if actual != self.digest_of_content or self.artifact_id != f"rm-{self.content.digest[:12]}":
            raise BadInput(
                f"{where}: the content has the digest {actual}, and the file names {self.digest_of_content} and "
                f"{self.artifact_id}: it was changed after its export; export it again, or fetch it anew"
            )
        check_places(self.content.reward.rubrics, where)
        return self


def read_artifact(source: object) -> Artifact:
    """Read an artifact and check its digest."""
    data, where = read_json(source, "artifact")
    if not isinstance(data, dict) or "artifact_id" not in data:
        raise BadInput(f"{where} is not an artifact; `truthgym rubric export` writes one")
    return model_from(Artifact, data, where).check(where)


def read_reward(source: object) -> tuple[RubricReward, str | None]:
    """Read rubrics, or an artifact with its protocol and judges, and the artifact's id."""
    data, where = read_json(source, "rubric")
    if isinstance(data, dict) and "artifact_id" in data:
        artifact = read_artifact(data)
        return artifact.content.reward, artifact.artifact_id
    if isinstance(data, dict) and "rubrics" in data:
        return model_from(RubricReward, data, where), None
    return RubricReward(rubrics=rubrics_in(data, where)), None


def with_protocol(reward: RubricReward, artifact: str | None, **given: object) -> RubricReward:
    """A reward with the arguments of a scorer in place of its protocol; those that are None leave it."""
    changed = {name: value for name, value in given.items() if value is not None}
    if artifact and changed:
        raise BadInput(f"{artifact} has its own {', '.join(changed)}; leave it out, or score by the rubric alone")
    if "template" in changed:
        path = str(changed["template"])
        changed["template"] = check_template(read_text("template", path), f"template={path}")
    elif "language" in changed:
        changed["template"] = ""
    try:
        protocol = Protocol.model_validate(reward.protocol.model_dump() | changed)
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}={one['input']!r}: {one['msg']}" for one in error.errors()]
        raise BadInput(f"rubric: {'; '.join(problems)}") from None
    return reward.model_copy(update={"protocol": protocol})
