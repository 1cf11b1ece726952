"""`truthgym train`: train a model on this machine or at a provider."""

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.provider import OPTIONS
from truthgym.training.trainers.options import METHODS

if TYPE_CHECKING:
    from collections.abc import Callable
    from multiprocessing.queues import SimpleQueue


F = TypeVar("F", bound="Callable[..., Any]")
PROVIDER_METHODS = sorted({method for methods in OPTIONS.values() for method in methods})
TRAINING_OPTIONS = sorted({name for methods in OPTIONS.values() for names in methods.values() for name in names})


def _read_config(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Take defaults from a YAML file. Options on the command line override them."""
    from truthgym.training.trainers.options import read_options

    names = {option.name for option in context.command.params} - {"config"}
    values = {name.replace("-", "_"): value for name, value in (read_options(path) if path else {}).items()}
    for name in values:
        if name not in names:
            raise bad_input(f"--config {path}: there is no option {name}; the options are {', '.join(sorted(names))}")
    context.default_map = values


def _option(name: str, **settings: Any) -> "Callable[[F], F]":
    """An option that is spelled with underscores or hyphens."""
    return click.option(*dict.fromkeys([f"--{name}", f"--{name.replace('_', '-')}"]), **settings)


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--config", type=click.Path(path_type=Path), callback=_read_config, is_eager=True, expose_value=False,
              help="YAML file with these options")  # fmt: skip
@_option("provider", type=click.Choice(list(OPTIONS)), required=True, help="service that trains")
@click.option("--model", "--model_name_or_path", "model", required=True, help="base model, by the provider's name")
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
def fine_tune(method: str, /, **values: Any) -> None:
    """Fine-tune a model at OpenAI or Together on a converted dataset.

    Asks before the paid job is submitted. The same command again watches the job in the folder's job.json.
    """
    from truthgym.training.providers import job
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
    job.fine_tune(
        spec,
        job.get_provider(provider),
        values["output_dir"],
        lambda question: values["yes"] or confirm(question),
        **{name: values[name] for name in ("poll", "wait", "overwrite")},
        log=click.echo,
    )


def confirm(job: str) -> bool:
    """Ask on the terminal whether to submit a job. Without a terminal it is refused."""
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


HELP = ("-h", "--help")


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": []}, options_metavar="")
@click.argument("method", required=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[OPTIONS]")
def command(method: str | None, arguments: tuple[str, ...]) -> None:
    """Train a model: truthgym train METHOD --model MODEL --dataset_name FOLDER [OPTIONS].

    OPTIONS are TRL's and Truthgym's: `truthgym train sft --help` lists them. `--config FILE` reads them from YAML. With
    `--provider openai` or `--provider together` the provider trains the model.
    """
    words = list(arguments)
    if method is None or method in HELP:
        listed = "\n".join(f"  {name:14}{text}" for name, text in METHODS.items())
        click.echo(f"{command.get_help(click.get_current_context())}\n\nMethods:\n{listed}")
        return
    if method not in METHODS:
        raise bad_input(f"truthgym train {method}: unknown method; give one of {', '.join(METHODS)}.")
    if method == "few_shot":
        few_shot(words, prog_name="truthgym train few_shot", standalone_mode=False)
        return
    if any(word.partition("=")[0] == "--provider" for word in words):
        if method not in PROVIDER_METHODS:
            methods = ", ".join(PROVIDER_METHODS)
            raise bad_input(f"--provider cannot train {method}, only {methods}; leave out --provider")
        fine_tune.main(args=words, prog_name=f"truthgym train {method}", standalone_mode=False, obj=method)
        return
    if method == "reinforcement":
        raise bad_input("truthgym train reinforcement: needs a provider; add --provider openai.")
    train(method, _spelled_as_trl(words))


def _spelled_as_trl(words: Sequence[str]) -> list[str]:
    """Options under TRL's names: `--model` is --model_name_or_path, and `-T NAME=VALUE` a part of --task_args."""
    names = {"--model": "--model_name_or_path", "-T": "-T", "--task-args": "--task_args"}
    spelled: list[str] = []
    for word in words:
        name, equals, value = word.partition("=")
        spelled += [names[name] + equals + value] if name in names else [word]
    given = [i for i, word in enumerate(spelled[:-1]) if word == "-T"]
    if not given:
        return spelled
    from truthgym.datasets.inspect_private import parse_cli_args
    from truthgym.training.trainers.options import mapping_option

    arguments = parse_cli_args([spelled[i + 1] for i in given])
    rest = [word for i, word in enumerate(spelled) if i not in given and i - 1 not in given]
    if "--task_args" in rest[:-1]:
        place = rest.index("--task_args")
        arguments = mapping_option("--task_args", rest[place + 1]) | arguments
        del rest[place : place + 2]
    return [*rest, "--task_args", json.dumps(arguments, default=str)]


def train(method: str, words: list[str]) -> None:
    """Train on this machine: in this process, or through `accelerate launch` if there are several GPUs."""
    from truthgym.training.trainers.accelerate_launch import start
    from truthgym.training.trainers.options import parse_options

    has_trl = find_spec("trl") is not None
    if set(words) & set(HELP):
        click.echo(usual_help(method))
        click.echo("All options:" if has_trl else 'For all options run `pip install -e ".[train]"`.')
        if not has_trl:
            return
    if not has_trl:
        raise bad_input('truthgym train: TRL is not installed; run `pip install -e ".[train]"`.')
    parsed = parse_options(method, words)
    if getattr(parsed, "members", None) is not None:
        train_ensemble(method, words, parsed.members)
    elif start(method, words, parsed):
        from truthgym.training.train import TRAINERS

        TRAINERS[method](words)


def train_ensemble(method: str, words: Sequence[str], members: int) -> None:
    """Train reward models that differ in their seed and their draw of the rows, each in a process of its own GPU."""
    from truthgym.training.trainers.accelerate_launch import visible_gpus

    if method != "reward" or members < 2:
        raise bad_input(f"--members {members} of {method}: an ensemble is of at least 2 reward models; leave it out")
    place = next(i for i, word in enumerate(words) if word.partition("=")[0] == "--members")
    shared = [*words[:place], *words[place + 1 + ("=" not in words[place]) :], "--bootstrap"]
    spawn, gpus = get_context("spawn"), max(visible_gpus(), 1)
    numbers = spawn.SimpleQueue()
    for gpu in os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(gpus)))).split(","):
        numbers.put(gpu)
    with ProcessPoolExecutor(min(gpus, members), spawn, _take_gpu, (numbers,)) as pool:
        lines = [[*shared, "--seed", str(seed)] for seed in range(1, members + 1)]
        folders = list(pool.map(_train_member, lines))
    click.echo(
        f"Score with all of them: inspect score LOG --scorer truthgym/reward_model -S folder={','.join(folders)}"
    )


def _take_gpu(numbers: "SimpleQueue[str]") -> None:
    os.environ["CUDA_VISIBLE_DEVICES"] = numbers.get()  # before torch is imported


def _train_member(words: list[str]) -> str:
    from truthgym.training.train import TRAINERS

    return str(TRAINERS["reward"](words))


def usual_help(method: str) -> str:
    """The options that people use, for the top of `--help`."""
    from truthgym.training.trainers.options import usual_options

    rows = [(f"--{name}", f"{text} [{default}]" if default else text)
            for name, (text, default) in usual_options(method).items()]  # fmt: skip
    formatter = click.HelpFormatter(width=100)
    formatter.write_usage(f"truthgym train {method}", "[OPTIONS]")
    with formatter.section(f"{method}: {METHODS[method]}. Usual options [and defaults that differ from TRL's]"):
        formatter.write_dl(rows)
    return formatter.getvalue()


@click.command("few_shot", context_settings={"help_option_names": list(HELP)})
@click.option("--model_name_or_path", "--model", "model", required=True, help="The model, as Inspect names it.")
@click.option("--log", "logs", multiple=True, required=True, help="A log, or a folder of logs; can be repeated.")
@click.option("--score", help="The score to select by, as in `truthgym convert` [default: brier_score].")
@click.option("--best", type=click.Choice(["lowest", "highest"]),
              help="Which end of the score is better, if the scorer does not say.")  # fmt: skip
@click.option("--top", type=float, help="Share of the trajectories [default: 0.1].")
@click.option("--count", type=int, help="Maximum number of trajectories [default: 100].")
@click.option("--output_dir", "--output-dir", default="trained", show_default=True)
@click.option("--overwrite", is_flag=True, help="Replace existing examples.")
@click.option("--any-task", is_flag=True, help="Allow logs of other projects' tasks, as `truthgym convert` does.")
def few_shot(
    model: str, logs: tuple[str, ...], output_dir: str, overwrite: bool, any_task: bool, **conditions: Any
) -> None:
    """Turn the best trajectories of logs into examples for the solver truthgym/few_shot."""
    from truthgym.training.conversion.options import Selection
    from truthgym.training.train import few_shot

    click.echo(f"Examples: {few_shot(model, logs, Selection(**conditions), output_dir, overwrite, any_task)}")
