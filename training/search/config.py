"""Options of a search. `truthgym rubric search` makes its command line of the fields and what is said of them here."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import yaml
from pydantic import ConfigDict, Field

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.reward import ModelSpec, Protocol
from truthgym.scorers.rubrics.rubric import BUNDLED, Data, Scale, model_from, read_json, rubric_json
from truthgym.training.search.objective import Weights

Selection = Literal["rank", "tournament", "top_k"]
Schedule = Literal["fixed", "success_feedback", "exploration_decay", "diversity_driven"]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
WRITER = ModelSpec(model="reference/proposer")
VERIFIER = ModelSpec(model="reference/judge", model_args={"discernment": 0.25, "noise": 0.1, "length": 0.1})
"""By default the simulated judge sees a quarter of the differences unless a criterion names what to look for, and likes
length."""
MODELS = ("initializer", "proposer", "judge")
PROTOCOL_OPTIONS = {
    "votes": "Calls of each verifier for one candidate.",
    "language": "Of all requests: en or zh.",
    "extraction": "Part of a candidate that is judged: {kind: tag, pattern: answer}.",
}
"""Options of the command line that are fields of the protocol, and their help."""


class SearchConfig(Data):
    """All that decides a search besides its prompts. Its digest is in every checkpoint."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    mode: Literal["evolutionary", "iterative"] = "evolutionary"
    """evolutionary; or iterative, the baseline: one rubric, one change after the other, kept if it is not worse."""
    scope: Literal["global_batch", "prompt_local"] = "global_batch"
    """global_batch (one rubric) or prompt_local (one for each prompt)."""
    generations: Count = 12
    population: Count = 8
    mutations: Count = 6
    """Offspring in each generation."""
    parents: Count = 3
    elitism: Count = 2
    """How many of the best stay, whatever the offspring are."""
    batch_size: Count = 3
    """Hardest prompts of a generation: the proposer sees their pairs, and offspring are scored on them first."""
    survival: Share = 0.5
    """Share of the offspring that are scored on all prompts."""
    selection: Selection = "rank"
    """rank, tournament or top_k."""
    schedule: Schedule = "fixed"
    """fixed, success_feedback, exploration_decay or diversity_driven."""
    tail_fraction: Annotated[float, Field(gt=0, le=1)] = 0.25
    lambda_var: Annotated[float, Field(ge=0)] = 0.2
    mu_diverse: Annotated[float, Field(ge=0)] = 0.25
    pair_confidence_prior: Annotated[float, Field(ge=0)] = 8.0
    patience: Count = 6
    """Generations without an improvement larger than its standard error over prompts (for a single prompt: than one
    pair more in the right order), after which the search stops."""
    stop_when_distinguished: bool = True
    """With prompt_local: stop as soon as the best two answers are told apart."""
    distinguish_margin: Share = 0.05
    initial: Literal["model", "generic", "rubric"] = "model"
    """First rubric: model (the initializer's), generic (one criterion that names nothing) or rubric."""
    initial_rubric: str = ""
    """Rubric for --initial rubric."""
    scale: Scale = "binary"
    """Of new rubrics: binary, 0-1, 0-5 or ordinal."""
    protocol: Protocol = Protocol(votes=2)
    held_out: Annotated[float, Field(gt=0, lt=1)] = 0.375
    """Share of the prompts for the report alone."""
    seed: int = 7
    initializer: ModelSpec = WRITER
    """Model, or {model: ..., model_args: {...}}; simulated by default, as all models."""
    proposer: ModelSpec = WRITER
    """Model that revises rubrics."""
    verifiers: Annotated[tuple[ModelSpec, ...], Field(min_length=1)] = (VERIFIER,)
    """Model that grades, in the search and in what is exported; can be repeated."""
    judge: ModelSpec | None = None
    """Model that compares candidates without metadata.rank."""

    @property
    def weights(self) -> Weights:
        """The constants of the objective."""
        return Weights(self.tail_fraction, self.lambda_var, self.mu_diverse, self.pair_confidence_prior)


def config_of(options: Mapping[str, Any]) -> SearchConfig:
    """The options of a search, from those of the command line."""
    fields: dict[str, Any] = {name: value for name, value in options.items() if name not in PROTOCOL_OPTIONS}
    for name in MODELS:
        if name in fields:
            fields[name] = _model_spec(fields[name], name)
    if "verifiers" in fields:
        fields["verifiers"] = [_model_spec(verifier, "verifier") for verifier in fields["verifiers"]]
    if "initial_rubric" in fields:
        fields["initial_rubric"] = inline(fields["initial_rubric"])
    protocol = {"votes": 2} | {name: options[name] for name in PROTOCOL_OPTIONS if name in options}
    if "extraction" in protocol:
        protocol["extraction"] = _yaml(str(protocol["extraction"]), "extraction")
    return model_from(SearchConfig, fields | {"protocol": protocol}, "rubric search")


def options_of(options: Mapping[str, Any]) -> list[str]:
    """The options as words of a command line, for the script that repeats the search."""
    words: list[str] = []
    for name, value in options.items():
        option = f"--{'verifier' if name == 'verifiers' else name.replace('_', '-')}"
        if isinstance(value, bool):
            words.append(option if value else f"--no-{option[2:]}")
        else:
            for item in value if isinstance(value, tuple | list) else [value]:
                words += [option, str(item)]
    return words


def inline(source: str) -> str:
    """A rubric as JSON text in place of its file's path, so that a record of the run needs no other file."""
    return source if source in BUNDLED else rubric_json(read_json(source, "rubric")[0])


def _model_spec(text: str, option: str) -> dict[str, Any]:
    """A model's name, arguments and settings."""
    spec = _yaml(text, option) if text.lstrip().startswith("{") else {"model": text}
    if not isinstance(spec, dict) or "model" not in spec:
        raise BadInput(f"--{option} names no model; give a name, or {{model: NAME, model_args: {{...}}}}")
    return spec


def _yaml(text: str, option: str) -> Any:  # noqa: ANN401
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        raise BadInput(f"--{option} is not YAML; write it as {{name: value}}") from None
