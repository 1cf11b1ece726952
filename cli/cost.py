"""`truthgym cost`: what a run will take, before it starts."""

from typing import Any

import click


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
def command(
    task: str,
    task_args: tuple[str, ...],
    more: str | None,
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
