"""Raises BadInput without loading inspect_ai, whose import takes more memory than converting a log does."""


def bad_input(message: str) -> Exception:
    """Make the BadInput to raise. The message names the value, the place and the remedy."""
    from truthgym.datasets.errors import BadInput

    return BadInput(message)
