"""`truthgym cost`: what a run will take, before it starts."""

from typing import Any

import click


@click.command("cost", epilog="See docs/cost.md.")
@click.argument("task")
@click.option("-T", "task_args", multiple=True, metavar="NAME=VALUE", help="Argument of the task. May be repeated.")
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
def command(
    task: str,
    task_args: tuple[str, ...],
    solver: str | None,
    solver_args: tuple[str, ...],
    model: str,
    roles: tuple[str, ...],
    **settings: Any,  # noqa: ANN401
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
        create_task(task, parse_cli_args(task_args)),
        models,
        solver=solver_from_spec(SolverSpec(solver, arguments, arguments)) if solver else None,
        **settings,
    )
    click.echo(estimate_text(frame))
