"""A round's training at a vendor: a fine-tuning job, whose cost is told and asked before it is spent."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from truthgym.evallog.errors import bad_input
from truthgym.training.closed_loop.options import Loop
from truthgym.training.providers.provider import TAKEN, Order
from truthgym.training.rollouts.questions import nearest

if TYPE_CHECKING:
    from truthgym.training.providers.provider import Vendor


def check_vendor(asked: Loop) -> None:
    """Refuse what a vendor has no use for, and spending that nobody could confirm.

    Raises:
        BadInput: An option that it does not take, its client or key is missing, or no terminal and no `--yes`.
    """
    taken = TAKEN[f"{asked.provider} {asked.method}"]
    for name in asked.train:
        if name not in taken:
            raise bad_input(f"--train: {asked.provider} has no option {name!r}{nearest(name, taken)}")
    if not asked.yes and not sys.stdin.isatty():
        raise bad_input("There is no terminal on which to confirm the cost. Add --yes to spend it without being asked")
    _vendor(asked)


def train_at_vendor(asked: Loop, base: str, data: Path, place: Path) -> Path:
    """Train at the vendor, or follow the job that was begun. Returns the folder with the model's card.

    Raises:
        BadInput: Spending was declined, or the vendor refuses something.
    """
    import click

    from truthgym.training.providers.job import FineTuning

    def confirm(quote: str) -> bool:
        print(quote, flush=True)
        return asked.yes or click.confirm("Go ahead?", default=False)

    folder = FineTuning(Order(asked.method, base, data, dict(asked.train)), _vendor(asked), place, confirm).run()
    if folder is None:
        raise bad_input(f"{place}: nothing was spent, so the loop ends here; the same command asks again")
    return folder


def _vendor(asked: Loop) -> "Vendor":
    if asked.provider == "openai":
        from truthgym.training.providers.openai import OpenAIJobs

        return OpenAIJobs()
    from truthgym.training.providers.together import TogetherJobs

    return TogetherJobs()
