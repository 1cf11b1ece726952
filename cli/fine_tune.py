"""`truthgym train sft|dpo|reinforcement --provider openai|together`: a fine-tuning job at a provider."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.provider import OPTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")
METHODS = sorted({method for methods in OPTIONS.values() for method in methods})
TRAINING_OPTIONS = sorted({name for methods in OPTIONS.values() for names in methods.values() for name in names})


def fine_tune(method: str, arguments: list[str]) -> None:
    """Run the command.

    Args:
        method: "sft", "dpo" or "reinforcement".
        arguments: The rest of the command line.

    Raises:
        BadInput: Something cannot be used.
    """
    if method not in METHODS:
        raise bad_input(f"--provider cannot train {method}, only {', '.join(METHODS)}; leave out --provider")
    command.main(args=arguments, prog_name=f"truthgym train {method}", standalone_mode=False, obj=method)


def _read_config(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Take defaults from a YAML file. Options on the command line override them."""
    from truthgym.training.trainers.options import read_options

    known = {option.name for option in context.command.params} - {"config"}
    values = {name.replace("-", "_"): value for name, value in (read_options(path) if path else {}).items()}
    for name in values:
        if name not in known:
            raise bad_input(f"--config {path}: there is no option {name}; the options are {', '.join(sorted(known))}")
    context.default_map = values


def _option(name: str, **settings: Any) -> "Callable[[F], F]":  # noqa: ANN401
    """An option that is spelled with underscores or hyphens."""
    return click.option(*dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]), **settings)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--config", type=click.Path(path_type=Path), callback=_read_config, is_eager=True, expose_value=False,
              help="YAML file with these options")  # fmt: skip
@_option("provider", type=click.Choice(list(OPTIONS)), required=True, help="service that trains")
@_option("model", required=True, help="base model, by the provider's name")
@_option("dataset_name", type=click.Path(path_type=Path), required=True, help="folder that `truthgym convert` wrote")
@_option("n_epochs", type=click.IntRange(1), help="epochs [default: 2 for sft and dpo]")
@_option("batch_size", type=click.IntRange(1), help="rows of one step [default: the provider's]")
@_option("learning_rate_multiplier", type=float, help="OpenAI only")
@_option("learning_rate", type=float, help="Together only")
@_option("beta", type=float, help="dpo: strength of the penalty for leaving the base model")
@click.option("--lora/--no-lora", default=None, help="Together only: train adapters, or all weights")
@_option("grader", help="reinforcement: python_brier, model_brier, model, or a .json or .py file")
@_option("grader_model", help="model_brier, model: OpenAI's model that reads or grades")
@_option("reasoning_effort", type=click.Choice(["default", "low", "medium", "high"]), help="reinforcement")
@_option("compute_multiplier", type=float, help="reinforcement: amount of exploration")
@_option("eval_interval", type=click.IntRange(1), help="reinforcement: steps between evaluations")
@_option("eval_samples", type=click.IntRange(1), help="reinforcement: answers to each validation question")
@_option("seed", type=click.IntRange(0), help="seed [default: the provider's]")
@_option("suffix", help="part of the fine-tuned model's name")
@_option("yes", is_flag=True, help="submit the paid job without asking")
@_option("output_dir", type=click.Path(path_type=Path), default=Path("trained"), help="folder for models' folders")
@_option("poll", type=click.FloatRange(0), default=20.0, help="seconds between two requests for the job's status")
@click.option("--wait/--no-wait", default=True, help="watch the job to its end, or only submit it")
@_option("overwrite", is_flag=True, help="submit another job where one has failed or has finished")
@click.pass_obj
def command(method: str, /, **values: Any) -> None:  # noqa: ANN401
    """Fine-tune a model at OpenAI or Together on a converted dataset.

    Asks before the paid job is submitted. The same command again watches the job in the folder's job.json.
    """
    from truthgym.training.providers.job import fine_tune, get_provider
    from truthgym.training.providers.provider import JobSpec

    provider = values["provider"]
    if method not in OPTIONS[provider]:
        raise bad_input(f"--provider {provider} does not offer {method}; it offers {', '.join(OPTIONS[provider])}")
    allowed = OPTIONS[provider][method]
    options = {name: values[name] for name in TRAINING_OPTIONS if values[name] is not None}
    for name in options:
        if name not in allowed:
            raise bad_input(f"--{name} is not an option of {method} at {provider}; it takes {', '.join(allowed)}")
    grader = _grader(method, values["grader"], values["grader_model"], values["dataset_name"])
    spec = JobSpec(method, values["model"], values["dataset_name"], options, grader, values["suffix"])
    fine_tune(
        spec,
        get_provider(provider),
        values["output_dir"],
        lambda job: values["yes"] or confirm(job),
        **{name: values[name] for name in ("poll", "wait", "overwrite")},
        log=click.echo,
    )


def confirm(job: str) -> bool:
    """Ask on the terminal whether to submit a job.

    Raises:
        BadInput: There is no terminal.
    """
    if not sys.stdin.isatty():
        raise bad_input(f"{job} There is no terminal to confirm it; add --yes to submit it without asking")
    return click.confirm(f"{job} Submit it?", default=False)


def _grader(method: str, name: str | None, model: str | None, dataset: Path) -> dict[str, Any] | None:
    if method != "reinforcement":
        if name or model:
            raise bad_input(f"--grader and --grader_model are for reinforcement; leave them out for {method}")
        return None
    from truthgym.scorers.graders.openai_export import READER, grader

    from_dataset = dataset / "grader.json"  # written by `truthgym convert --to openai`
    return grader(name or (str(from_dataset) if from_dataset.is_file() else "python_brier"), model or READER)
