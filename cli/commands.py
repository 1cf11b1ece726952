"""The commands that take one function: card, check, compare, cost, fetch, plan, sweep, ui and worlds."""

from pathlib import Path
from typing import Any, Literal

import click


@click.command("card")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--log", "logs", multiple=True, required=True, help="A log, or a folder of logs; can be repeated.")
def card(folder: Path, logs: tuple[str, ...]) -> None:
    """Add evaluations of the model in FOLDER, and of its base, to its card.

    If both answered the same questions, the card also reports the difference with its 95 % interval.
    """
    from truthgym.training.evaluations import add_evaluations
    from truthgym.training.trainers.model_card import EVALUATIONS

    card = add_evaluations(folder, logs)
    _, _, after = card.read_text(encoding="utf-8").partition(f"{EVALUATIONS}\n")
    evaluations, _, _ = after.partition("\n## ")
    click.echo(f"{evaluations.strip()}\n\nWritten: {card}")


@click.command("check", epilog="See docs/own_questions.md.")
@click.argument("file")
@click.option("--domain", default="questions", show_default=True, help="The domain whose rows it has.")
def check(file: str, domain: str) -> None:
    """Read FILE, .jsonl, .csv or .parquet, as an eval would, and print what its questions can tell.

    Rows that cannot be used are listed in one message, with exit status 1. Warnings do not change the status.
    """
    from truthgym.analysis.check import check, report

    click.echo(report(check(file, domain)))


@click.command("compare", epilog="See docs/compare.md.")
@click.argument("logs", nargs=-1, required=True, metavar="LOGS...")
@click.option("--against", default="", metavar="RUN", help="The run with which the others of its task are compared: "
              "a part of its name, model or path. Otherwise the first.")  # fmt: skip
@click.option("--by", default="", metavar="COLUMN", help="Also compare by category: a column of your file, or another "
              "field of the questions' metadata.")  # fmt: skip
@click.option("--format", "form", type=click.Choice(["table", "markdown", "csv", "json"]), default="table",
              show_default=True, help="Tables for eyes, or for other programs.")  # fmt: skip
def compare(logs: tuple[str, ...], against: str, by: str, form: Literal["table", "markdown", "csv", "json"]) -> None:
    """Compare runs on the same questions, and print the differences with 95 % intervals.

    LOGS are logs, folders and patterns in any mix. Those of one task are compared with its first, question by question.

    A file that cannot be read is left out and named at the end, if the first one and another remain; the exit status is
    then 1.
    """
    from truthgym.analysis.compare import as_json, compare, printed, report
    from truthgym.analysis.tables.saving import say_unreadable

    frame = compare(logs, against, by)
    if form == "table":
        from rich.console import Console

        console = Console(highlight=False)
        console.print(printed(frame, console.width))
    elif form == "csv":
        click.echo(frame.to_csv(index=False), nl=False)
        for note in frame.attrs["notes"]:
            click.echo(note, err=True)
    else:
        click.echo(report(frame) if form == "markdown" else as_json(frame))
    if say_unreadable(frame.attrs["left_out"]):
        raise SystemExit(1)


class CostCommand(click.Command):
    """A command that says where an argument of the task goes."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            hint = f"{error.message} Arguments of the task are given as -T {name}=VALUE."
            raise click.NoSuchOption(error.option_name, hint, ctx=ctx) from None


@click.command("cost", cls=CostCommand, epilog="See docs/cost.md.")
@click.argument("task")
@click.option("-T", "task_args", multiple=True, metavar="NAME=VALUE", help="Argument of the task. May be repeated.")
@click.option("--task_args", "--task-args", "more", help="The same in YAML or JSON, as for truthgym loop: '{n: 200}'.")
@click.option("--solver", help="Solver, if not the task's own.")
@click.option("-S", "solver_args", multiple=True, metavar="NAME=VALUE", help="Argument of the solver. May be repeated.")
@click.option("--model", default="?", help="The model, for its price. It is not called.")
@click.option("--model-role", "roles", multiple=True, metavar="ROLE=MODEL", help="A model in a role. May be repeated.")
@click.option("--epochs", type=click.IntRange(1), help="Runs of each question [default: the task's].")
@click.option("--limit", type=click.IntRange(1), help="Only the first so many samples.")
@click.option("--rehearse", "questions", type=click.IntRange(1), default=5, show_default=True,
              help="Questions that simulated agents answer to count calls.")  # fmt: skip
@click.option("--reply-tokens", type=click.IntRange(0), default=0,
              help="Tokens that the model writes in each reply of its reasoning [default: few].")  # fmt: skip
@click.option("--prices", default="", help="YAML or JSON file of prices, as inspect eval --model-cost-config takes it.")
@click.option("--effect", type=click.FloatRange(0), default=0.0,
              help="Difference of two models' mean scores to detect; says if the run is too small.")  # fmt: skip
def cost(
    task: str,
    task_args: tuple[str, ...],
    more: str | None,
    solver: str | None,
    solver_args: tuple[str, ...],
    model: str,
    roles: tuple[str, ...],
    **settings: Any,
) -> None:
    """Print the model calls and tokens that `inspect eval TASK` would take with the same options.

    Simulated agents answer a few of the questions through the real prompts and parsers. No other model is called.
    """
    from inspect_ai.solver import SolverSpec

    from truthgym.analysis.tables.cost_estimate import estimate, estimate_text
    from truthgym.datasets.errors import BadInput
    from truthgym.datasets.inspect_private import parse_cli_args, solver_from_spec
    from truthgym.datasets.loading.inspect_tasks import create_task
    from truthgym.training.rollouts.questions import check_solver
    from truthgym.training.trainers.options import mapping_option

    models = {"model": [model]}
    for option in roles:
        role, equals, names = option.partition("=")
        if not equals or not names:
            raise BadInput(f"--model-role {option} cannot be used; write ROLE=MODEL")
        models.setdefault(role, []).extend(names.split(","))
    arguments = parse_cli_args(solver_args)
    if solver:
        check_solver(solver, arguments)
    frame = estimate(
        create_task(task, mapping_option("--task_args", more) | parse_cli_args(task_args)),
        models,
        solver=solver_from_spec(SolverSpec(solver, arguments, arguments)) if solver else None,
        **settings,
    )
    click.echo(estimate_text(frame))


@click.command("fetch", epilog="Sources and their options: the domain's card, datasets/DOMAIN.md.")
@click.argument("domain")
@click.option("--source", help="Name of the source, if the domain has several.")
@click.option("--out", required=True, help="The file, .jsonl or .parquet. Its card has the suffix .md.")
@click.option("--known-after", help="Only questions whose truth became public after this day, as 2025-06-01.")
@click.option("-n", type=int, help="At most this many rows, drawn at random.")
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of that draw.")
@click.option("-T", "options", multiple=True, metavar="NAME=VALUE", help="An option of the source. May be repeated.")
def fetch(domain: str, source: str | None, out: str, options: tuple[str, ...], **selection: Any) -> None:
    """Fetch the rows of a real source of DOMAIN into a file, for an eval with `-T source=FILE`.

    The log of the eval records the file's SHA-256.
    """
    from truthgym.datasets.fetch import fetch

    snapshot = fetch(domain, source, out, **selection, **_parse(options))
    click.echo(f"{snapshot.path}: {snapshot.rows:,} rows, SHA-256 {snapshot.sha256}")
    for reason, number in snapshot.left_out.most_common():
        click.echo(f"  left out: {number:>8,}  {reason}")


def _parse(options: tuple[str, ...]) -> dict[str, Any]:
    import yaml

    from truthgym.datasets.errors import BadInput

    not_options = {"domain": "DOMAIN", "source": "--source", "out": "--out", "known_after": "--known-after", "n": "-n",
                 "seed": "--seed"}  # fmt: skip
    values = {}
    for option in options:
        name, equals, value = option.partition("=")
        if not equals or not name:
            raise BadInput(f"-T {option} cannot be used; write NAME=VALUE")
        if name in not_options:
            raise BadInput(f"-T {option}: {name} is not an option of a source; give it as {not_options[name]}")
        try:
            values[name] = yaml.safe_load(value)
        except (yaml.YAMLError, ValueError, RecursionError) as error:
            why = str(error).splitlines()[0]
            raise BadInput(f"-T {option} is not valid YAML ({why}); quote text twice, as '\"text\"'") from None
    return values


@click.command("plan", epilog="See docs/plan.md.")
@click.option(
    "--model",
    "--model_name_or_path",
    "model",
    required=True,
    help="A folder, or a name on the Hub. Only its configuration is read.",
)
@click.option("--gpus", type=int, default=1, show_default=True, help="GPUs of one node.")
@click.option("--method", type=click.Choice(["sft", "dpo", "kto", "reward", "grpo", "rloo"]), default="sft",
              show_default=True, help="Training method.")  # fmt: skip
@click.option("--length", type=int, default=2048, show_default=True,
              help="Tokens of the longest row, or of a rollout with its prompt.")  # fmt: skip
@click.option("--gpu_memory", "--gpu-memory", type=float, help="GB of each GPU, to say what fits.")
@click.option("--measure", is_flag=True, help="Also count the bytes of one step, on a small model.")
@click.argument("training", nargs=-1, type=click.UNPROCESSED, metavar="[-- TRAINING OPTIONS]")
def plan(model: str, gpus: int, training: tuple[str, ...], **options: Any) -> None:
    """Print the memory that training takes on each GPU, part by part, for DDP, ZeRO, FSDP, LoRA and offloading.

    Everything after -- is an option of `truthgym train METHOD`, such as --per_device_train_batch_size 2.
    """
    from truthgym.training.closed_loop.options import parse_training_options
    from truthgym.training.plan import plan

    click.echo(plan(model, gpus, train=parse_training_options(training), **options).text)


@click.command("sweep", epilog="See docs/sweep.md.", context_settings={"ignore_unknown_options": True})
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")
@click.option("--on", type=click.Choice(["local", "ray", "slurm"]), default="local", show_default=True,
              help="Processes of this machine, a Ray cluster, or a Slurm job array.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1), help="Units at the same time [default: one for each CPU].")
@click.option("--shards", type=click.IntRange(1), default=1, show_default=True,
              help="Most units for one task; questions of one event stay together.")  # fmt: skip
@click.option("--max-connections", type=click.IntRange(1),
              help="Connections to each provider, by all workers together [default: as of one process].")  # fmt: skip
@click.option("--address", default="", help="Of a running Ray cluster [default: start one here].")
@click.option("--gpus-per-worker", type=click.FloatRange(0), default=0.0, show_default=True,
              help="On Ray: GPUs of each unit.")  # fmt: skip
def sweep(command: tuple[str, ...], **options: object) -> None:
    """Run SCRIPT, which calls eval_set() as often as it likes, on many workers. The same command resumes it.

    SCRIPT is a Python file, or `inspect eval-set ...`; `inspect score LOGS ...` and `truthgym convert LOGS ... --out
    DIR` run once for each log. Options of this command may stand anywhere; after `--`, all are the script's.
    """
    from truthgym.sweep.sweep import sweep as run

    if not run(command, **options, report=click.echo):  # type: ignore[arg-type]
        raise SystemExit(1)


@click.command("ui", epilog="See docs/ui.md.")
@click.argument("folder", default=".", type=click.Path(path_type=Path, file_okay=False))
@click.option("--host", default="127.0.0.1", show_default=True, help="Where to listen; beyond loopback needs a token.")
@click.option("--port", type=click.IntRange(0, 65535), default=7580, show_default=True, help="0 chooses a free one.")
@click.option("--token-file", type=click.Path(path_type=Path, dir_okay=False, exists=True),
              help="File whose first line is the token that a visitor must know.")  # fmt: skip
@click.option("--at-once", type=click.IntRange(min=1), default=2, show_default=True,
              help="Most runs at the same time; others wait.")  # fmt: skip
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
def ui(folder: Path, host: str, port: int, token_file: Path | None, at_once: int, no_browser: bool) -> None:
    """Open a page on which runs are composed, started and watched. FOLDER holds their logs, setups and datasets.

    Runs go on when the page is closed or this command ends, and are found again.
    """
    from importlib.util import find_spec

    from truthgym.datasets.errors import BadInput

    if find_spec("fastapi") is None or find_spec("uvicorn") is None:
        raise BadInput('truthgym ui: FastAPI is not installed; run `pip install -e ".[ui]"`')
    from truthgym.ui.app import serve

    serve(folder, host, port, token_file, browser=not no_browser, at_once=at_once)


@click.command("worlds", epilog="See docs/domains.md.")
@click.argument("log_dir")
@click.argument("named", nargs=-1, metavar="[MODEL]...")
@click.option(
    "--model",
    "models",
    multiple=True,
    help="A model, as for inspect eval, or a .yaml file: `models: [...]`; can be repeated.",
)
@click.option("--model-path", default="", help="Folder of an hf/ model.")
@click.option("--n", type=click.IntRange(1), default=200, show_default=True, help="Questions of each world.")
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed gives other questions.")
@click.option("--epochs", type=click.IntRange(1), default=1, show_default=True, help="Answers to each question.")
@click.option("--read", type=click.Choice(["stated", "token"]), default="stated", show_default=True,
              help="How answers are read: docs/brier.md.")  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path), help="Also write the chart, .html, .svg or .png, or the table, .csv."
)
@click.option("--display", type=click.Choice(["full", "conversation", "rich", "plain", "log", "none"]),
              help="Inspect's display.")  # fmt: skip
def worlds(log_dir: str, named: tuple[str, ...], models: tuple[str, ...], out: Path | None, **options: object) -> None:
    """Ask models the questions of all generated worlds: which reader does each follow, and how far off is it?

    Without a model it asks the two readers that each world is made to tell apart, with no key and no download. They are
    part of every table. The same command resumes an interrupted run from the logs in LOG_DIR.
    """
    from rich.console import Console

    from truthgym.analysis.tables.saving import save
    from truthgym.analysis.worlds import ask, chart, printed, readings
    from truthgym.solvers.roles import models_named

    done, logs = ask(log_dir, models_named([*named, *models]), **options)  # type: ignore[arg-type]
    frame = readings(logs)
    Console(highlight=False).print(printed(frame))
    if out:
        save(frame, chart, out)
        click.echo(f"Written: {out}")
    raise SystemExit(0 if done else 1)
