"""`truthgym train sft|dpo|reinforcement --provider openai|together`: a fine-tuning job at a vendor."""

import sys
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from truthgym.evallog.errors import bad_input
from truthgym.training.providers.provider import TAKEN

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from truthgym.training.providers.provider import Look, Vendor

METHODS = {"openai": ("sft", "dpo", "reinforcement"), "together": ("sft", "dpo")}
OPTIONS = sorted({option for options in TAKEN.values() for option in options})


def fine_tune(method: str, arguments: list[str]) -> None:
    """Run the command.

    Args:
        method: "sft", "dpo" or "reinforcement".
        arguments: What stands after it on the command line.

    Raises:
        BadInput: Something cannot be used.
    """
    known = sorted({name for names in METHODS.values() for name in names})
    if method not in known:
        raise bad_input(f"{method} cannot be trained at a vendor; {', '.join(known)} can. Leave out --provider")
    command.main(args=arguments, prog_name=f"truthgym train {method}", standalone_mode=False, obj=method)


def _config(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Take options from a YAML file. Those on the command line come before them."""
    if value is None:
        return None
    import yaml

    try:
        read = yaml.safe_load(value.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise bad_input(f"--config {value}: it is not YAML ({error}); write lines such as n_epochs: 3") from None
    if not isinstance(read, dict):
        raise bad_input(f"--config {value}: it holds no options; write lines such as n_epochs: 3")
    known = [str(option.name) for option in context.command.params if option.name not in ("config", "help")]
    given = {str(key).replace("-", "_"): entry for key, entry in read.items()}
    for key in given:
        if key not in known:
            near = get_close_matches(key, known, 1)
            hint = f"did you mean {near[0]}?" if near else f"the options are {', '.join(sorted(known))}"
            raise bad_input(f"--config {value}: there is no option {key}; {hint}")
    context.default_map = given
    return value


@click.command(context_settings={"help_option_names": ["-h", "--help"], "show_default": True})
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), callback=_config, is_eager=True,
              help="YAML file with these options")  # fmt: skip
@click.option("--provider", type=click.Choice(list(METHODS)), required=True, help="who trains")
@click.option("--model", required=True, help="the base, by the vendor's name")
@click.option("--dataset_name", "--dataset-name", type=click.Path(path_type=Path), required=True,
              help="folder that `truthgym convert` wrote")  # fmt: skip
@click.option("--n_epochs", "--n-epochs", type=click.IntRange(1), help="epochs; 2 for sft and dpo unless said")
@click.option(
    "--batch_size", "--batch-size", type=click.IntRange(1), help="rows of one step; the vendor's own if unsaid"
)
@click.option("--learning_rate_multiplier", "--learning-rate-multiplier", type=float, help="at OpenAI")
@click.option("--learning_rate", "--learning-rate", type=float, help="at Together")
@click.option("--beta", type=float, help="of dpo: how much it costs to leave the base")
@click.option("--lora/--no-lora", default=None, help="at Together: adapters, or all weights")
@click.option("--grader", help="of reinforcement: python_brier, model_brier, model, or a .json or .py file")
@click.option("--grader_model", "--grader-model", help="of model_brier and model: OpenAI's model that reads or grades")
@click.option("--reasoning_effort", "--reasoning-effort", type=click.Choice(["default", "low", "medium", "high"]),
              help="of reinforcement")  # fmt: skip
@click.option("--compute_multiplier", "--compute-multiplier", type=float, help="of reinforcement: how much is explored")
@click.option(
    "--eval_interval", "--eval-interval", type=click.IntRange(1), help="of reinforcement: steps between evaluations"
)
@click.option(
    "--eval_samples", "--eval-samples", type=click.IntRange(1), help="of reinforcement: answers to each question"
)
@click.option("--seed", type=click.IntRange(0), help="the vendor's own if unsaid")
@click.option("--suffix", help="stands in the fine-tuned model's name")
@click.option("--price", type=click.FloatRange(0), help="dollars for a million trained tokens (reinforcement: an hour)")
@click.option("--yes", is_flag=True, help="spend without asking")
@click.option("--output_dir", "--output-dir", type=click.Path(path_type=Path), default=Path("trained"),
              help="where models' folders lie")  # fmt: skip
@click.option("--poll", type=click.FloatRange(0), default=20.0, help="seconds between two looks at the job")
@click.option("--wait/--no-wait", default=True, help="follow the job to its end, or only start it")
@click.option("--overwrite", is_flag=True, help="train again what is trained already or has failed")
@click.pass_obj
def command(method: str, /, **given: Any) -> None:  # noqa: ANN401
    """Fine-tune a model at OpenAI or Together on a converted dataset.

    What it will cost is told, and asked, before anything is spent. The same command goes on where it was interrupted.
    """
    from rich.console import Console

    from truthgym.training.providers.job import FineTuning
    from truthgym.training.providers.provider import Order

    provider = given["provider"]
    if method not in METHODS[provider]:
        raise bad_input(f"--provider {provider}: it offers no {method}; it offers {', '.join(METHODS[provider])}")
    taken = TAKEN[f"{provider} {method}"]
    options = {name: given[name] for name in OPTIONS if given[name] is not None}
    for name in options:
        if name not in taken:
            raise bad_input(f"--{name} is no option of {method} at {provider}; it takes {', '.join(taken)}")
    order = Order(
        method,
        given["model"],
        given["dataset_name"],
        options,
        _grader(method, given["grader"], given["grader_model"], given["dataset_name"]),
        _suffix(provider, given["suffix"]),
        given["price"],
    )
    console = Console(soft_wrap=True, highlight=False)
    with Bar(console) as bar:
        run = FineTuning(
            order,
            _vendor(provider),
            given["output_dir"],
            confirm=_asker(given["yes"], bar.say),
            say=bar.say,
            show=bar.show,
            poll=given["poll"],
            wait=given["wait"],
            overwrite=given["overwrite"],
        )
        try:
            run.run()
        except KeyboardInterrupt:
            bar.say("Interrupted. The same command goes on from here; a job that was created goes on at the vendor.")
            raise


class Bar:
    """Progress on the terminal: what the vendor reports line by line, and a bar of steps below."""

    def __init__(self, console: "Console") -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        from truthgym.training.providers.provider import Look

        self.console = console
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True)
        self._task: Any = None
        self._told = ""
        self._last = Look("")

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        self.console.print(text, markup=False)

    def show(self, look: "Look") -> None:
        """Show how far a job is."""
        # A look that brings no new figures leaves the last ones standing.
        look.losses = self._last.losses | look.losses
        look.step, look.steps = look.step or self._last.step, look.steps or self._last.steps
        names = {"loss": "training loss", "eval_loss": "validation loss", "reward": "reward"}
        figures = [f"{names[key]} {value:.4g}" for key, value in look.losses.items() if key in names]
        told = ", ".join([look.status, *figures])
        for line in look.news:
            self.say(line)
        self._last = look
        if not self.console.is_terminal:  # no bar, but a line for each change
            if told != self._told:
                self.say(told + (f", step {look.step}" if look.step else ""))
            self._told = told
            return
        if self._task is None:
            self._progress.start()
            self._task = self._progress.add_task(told, total=None)
        self._progress.update(self._task, description=told, total=look.steps, completed=look.step or 0)


def _vendor(provider: str) -> "Vendor":
    if provider == "openai":
        from truthgym.training.providers.openai import OpenAIJobs

        return OpenAIJobs()
    from truthgym.training.providers.together import TogetherJobs

    return TogetherJobs()


def _asker(yes: bool, say: "Callable[[str], None]") -> "Callable[[str], bool]":
    def ask(quote: str) -> bool:
        say(quote)
        if yes:
            return True
        if not sys.stdin.isatty():
            raise bad_input(
                "There is no terminal on which to confirm the cost. Add --yes to spend it without being asked"
            )
        return click.confirm("Go ahead?", default=False)

    return ask


def _grader(method: str, name: str | None, model: str | None, dataset: Path) -> dict[str, Any] | None:
    if method != "reinforcement":
        if name or model:
            raise bad_input(f"--grader and --grader_model are for reinforcement; leave them out for {method}")
        return None
    from truthgym.scorers.graders.openai_export import READER, grader

    kept = dataset / "grader.json"  # `truthgym convert --to openai` writes one
    return grader(name or (str(kept) if kept.is_file() else "python_brier"), model or READER)


def _suffix(provider: str, suffix: str | None) -> str | None:
    from truthgym.training.conversion.openai_format import NAME
    from truthgym.training.providers import openai as openai_jobs
    from truthgym.training.providers import together as together_jobs

    most = {"openai": openai_jobs.SUFFIX, "together": together_jobs.SUFFIX}[provider]
    if suffix is not None and (not NAME.fullmatch(suffix) or len(suffix) > most):
        raise bad_input(
            f"--suffix {suffix!r} cannot be used at {provider}; use letters, digits, - and _, at most {most}"
        )
    return suffix
