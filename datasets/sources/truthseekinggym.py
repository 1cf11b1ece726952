"""TruthSeekingGym: the problems in a folder of its data, for users who have one.

What is public of its formats is what its guide shows: a problem has a `question`, and where one answer is right its
`options` and `correct_option`, the place of that answer from 0. Files that hold such problems are read. The files of
its runs are known by their names and left out: their format is not public.
"""

import json
from collections import Counter
from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.datasets.loading.row_files import Row, check_file, read_rows

LICENCE = "TruthSeekingGym problems of your own folder: their licence is what you have them under."
RUNS = ("reasoning-trajectories*.json", "reasoning-beliefs-*.json", "bias-eval-results-*.json")
"""Names of files that its runs leave."""
NOT_GIVEN = "The source gives none."


def problems_with_answers(skipped: Counter[str], known_after: date | None, folder: str) -> Iterator[Row]:
    """Read problems with two options of which one is correct, as rows of `research`.

    Args:
        skipped: Counts what is left out, by reason.
        known_after: Not used: no problem has a day.
        folder: Path of the folder, or of one file.

    Raises:
        BadInput: There is no such folder, or a file in it is no JSON.
    """
    for where, name, problem in _problems(skipped, folder):
        options, correct = problem.get("options"), problem.get("correct_option")
        two = isinstance(options, list) and len(options) == 2 and all(isinstance(o, str) and o.strip() for o in options)
        if not two or type(correct) is not int or correct not in (0, 1):
            skipped["problems without two options and a correct one"] += 1
            continue
        assert isinstance(options, list)
        right, wrong = options[correct], options[1 - correct]
        if right.strip().casefold() == wrong.strip().casefold():
            skipped["problems whose two options are the same"] += 1
            continue
        texts = {"question": problem["question"], "hard": right, "easy": wrong, "reason": NOT_GIVEN}
        names = {"id": _named(problem["question"], *sorted(options)), "event": _named(problem["question"])}
        yield where, {**names, **texts, "science": name, "recorded": where}


def prompts(skipped: Counter[str], known_after: date | None, folder: str) -> Iterator[Row]:
    """Read problems without options, as rows of `intellectual`. Args, errors: as `problems_with_answers`."""
    for where, name, problem in _problems(skipped, folder):
        if problem.get("options"):
            skipped["problems with options"] += 1
        else:
            event = _named(problem["question"])
            yield where, {"id": event, "event": event, "prompt": problem["question"], "kind": name}


def _named(*texts: str) -> str:
    """A name that a problem keeps in whatever file it stands, at whatever place: so does its split."""
    words = "\n".join(" ".join(text.split()) for text in texts)
    return f"truthseekinggym-{blake2b(words.encode(), digest_size=8).hexdigest()}"


def _problems(skipped: Counter[str], folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Places, names of files, and problems."""
    top = Path(folder)
    if not top.exists():
        raise BadInput(f"There is no folder {folder}; give that of TruthSeekingGym's data with -T folder=")
    held = (path for path in top.rglob("*.json*") if path.suffix in (".json", ".jsonl") and path.is_file())
    files = [top] if top.is_file() else sorted(held)
    if not files:
        raise BadInput(f"{folder} holds no .json or .jsonl file; give the folder of TruthSeekingGym's data")
    for path in files:
        if any(fnmatch(path.name, run) for run in RUNS):
            skipped["files of runs, whose format is not public"] += 1
            continue
        for number, problem in enumerate(_held(path), start=1):
            if isinstance(problem, dict) and isinstance(problem.get("question"), str) and problem["question"].strip():
                place = path.name if top.is_file() else path.relative_to(top).as_posix()
                yield f"{place} problem {number}", path.stem, problem
            else:
                skipped["entries that are no problem with a question"] += 1


def _held(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        return [row for _, row in read_rows(path)]
    check_file(path)
    try:
        held = json.loads(path.read_text(encoding="utf-8-sig"))
        json.dumps(held, ensure_ascii=False).encode()  # JSON can name half of a character
    except (ValueError, RecursionError) as error:  # no UTF-8, no JSON, or a number of thousands of digits
        raise BadInput(f"{path}: not JSON ({error}); remove it from the folder, or mend it") from None
    return held if isinstance(held, list) else [held]
