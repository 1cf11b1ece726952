"""Extension: the next prompt of a conversation must be the last one, the reply, and what came after."""

from truthgym.evallog.errors import bad_input

AROUND = 40
"""Characters shown on each side of where two texts part."""


def extension(rendered: str, known: str, who: str) -> str:
    """What a chat template puts after what the model has already read and written.

    Blanks may differ: some templates trim a message, and what the model read stays as it was.

    Args:
        rendered: The conversation so far, as the template writes it.
        known: The same up to the end of the last reply, as the model read and wrote it.
        who: The tokenizer's name, for the error.

    Raises:
        BadInput: The template writes the earlier part differently now. The error shows where.
    """
    if rendered.startswith(known):
        return rendered[len(known) :]
    at = 0
    for place, letter in enumerate(known):
        if letter.isspace():
            continue
        while at < len(rendered) and rendered[at].isspace():
            at += 1
        if at == len(rendered) or rendered[at] != letter:
            raise bad_input(_parted(rendered, at, known, place, who))
        at += 1
    return rendered[at:]


def _parted(rendered: str, at: int, known: str, place: int, who: str) -> str:
    before = known[max(0, place - AROUND) : place]
    return (
        f"The chat template of {who} changes what was said earlier in a conversation, so a turn cannot go on from the "
        f"tokens of the last one. After {before!r} the model had {known[place : place + AROUND]!r}, and the template "
        f"now writes {rendered[at : at + AROUND]!r} (character {place} of {len(known)}). Give a "
        "template that keeps earlier turns as they were with --chat_template_path FILE, train a solver of one turn, or "
        "use `truthgym train rloo`, which trains each reply by itself"
    )
