"""Refusing bad input where Inspect is not loaded: importing it takes more memory than converting a log does."""


def bad_input(message: str) -> Exception:
    """Make the BadInput to raise, with a message that names the value, the place and the remedy."""
    from truthgym.datasets.errors import BadInput

    return BadInput(message)
