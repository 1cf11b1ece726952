"""A rubric reward: rubrics with all that decides a score, and the artifact in which it is shipped.

An artifact is a JSON file with the digest of its content. Its id is taken from the digest, so that two artifacts with
one id have the same content, and a changed byte is found.
"""

from typing import Annotated, Any, Literal, Self

from inspect_ai.model import GenerateConfig, Model, get_model
from pydantic import Field, ValidationError, model_validator

from truthgym.datasets.errors import BadInput
from truthgym.datasets.question import Text
from truthgym.scorers.judges.rubric import read_text
from truthgym.scorers.rubrics.extraction import Extraction
from truthgym.scorers.rubrics.prompts import PROMPTS, Language, check_template
from truthgym.scorers.rubrics.rubric import Data, Rubric, check_places, model_from, read_json, rubrics_in

ID = r"^rm-[0-9a-f]{12}$"


class ModelSpec(Data):
    """A model, as `--model-role` names it."""

    model: Text
    model_args: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] = Field(default_factory=dict)
    """Settings of generation, such as the temperature."""

    def load(self) -> Model:
        """The model, from Inspect. Environment variables hold its key, never this."""
        return get_model(self.model, config=GenerateConfig(**self.config), **self.model_args)


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
        """Check that the content has the digest and the id that the file names.

        Raises:
            BadInput: It has not.
        """
        found = f"sha256:{self.content.digest}"
        if found != self.digest_of_content or self.artifact_id != f"rm-{self.content.digest[:12]}":
            raise BadInput(
                f"{where}: the content has the digest {found}, and the file names {self.digest_of_content} and "
                f"{self.artifact_id}: it was changed after its export; export it again, or fetch it anew"
            )
        check_places(self.content.reward.rubrics, where)
        return self


def read_artifact(source: object) -> Artifact:
    """Read an artifact and check its digest.

    Raises:
        BadInput: There is no such file, it is no artifact, or it was changed.
    """
    data, where = read_json(source, "artifact")
    if not isinstance(data, dict) or "artifact_id" not in data:
        raise BadInput(f"{where} is not an artifact; `truthgym rubric export` writes one")
    return model_from(Artifact, data, where).check(where)


def read_reward(source: object) -> tuple[RubricReward, str | None]:
    """Read rubrics, or an artifact with its protocol and judges, and the artifact's id.

    Args:
        source: Name of a bundled rubric; a .json file, JSON text or data with a rubric, a list of rubrics, or an
            artifact.

    Raises:
        BadInput: It is none of them.
    """
    data, where = read_json(source, "rubric")
    if isinstance(data, dict) and "artifact_id" in data:
        artifact = read_artifact(data)
        return artifact.content.reward, artifact.artifact_id
    if isinstance(data, dict) and "rubrics" in data:
        return model_from(RubricReward, data, where), None
    return RubricReward(rubrics=rubrics_in(data, where)), None


def with_protocol(reward: RubricReward, artifact: str | None, **given: object) -> RubricReward:
    """A reward with the arguments of a scorer in place of its protocol; those that are None leave it.

    Args:
        reward: The reward.
        artifact: The id of the artifact that it is from, whose protocol cannot be changed.
        given: Fields of `Protocol`; `template` as the path of a text file.

    Raises:
        BadInput: A value that cannot be used, or one that an artifact has decided.
    """
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
