"""TruthSeekingGym: the problems in a folder of its data, for users who have one."""

from collections import Counter
from collections.abc import Iterator
from datetime import date
from fnmatch import fnmatch
from hashlib import blake2b
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput, validate_call
from truthgym.datasets.loading.domain import Skipped
from truthgym.datasets.loading.row_files import Row, read_json, read_rows

LICENCE = "TruthSeekingGym problems in your own folder, under the licence that you have them under."
RUNS = ("reasoning-trajectories*.json", "reasoning-beliefs-*.json", "bias-eval-results-*.json")
"""Names of files from its runs."""
NOT_GIVEN = "The source gives none."


@validate_call
def problems_with_answers(skipped: Skipped, known_after: date | None, folder: str) -> Iterator[Row]:
    """Read problems with two options of which one is correct, as rows of `research`."""
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


@validate_call
def prompts(skipped: Skipped, known_after: date | None, folder: str) -> Iterator[Row]:
    """Read problems without options, as rows of `intellectual`. Args, errors: as `problems_with_answers`."""
    for where, name, problem in _problems(skipped, folder):
        if problem.get("options"):
            skipped["problems with options"] += 1
        else:
            event = _named(problem["question"])
            yield where, {"id": event, "event": event, "prompt": problem["question"], "kind": name}


def _named(*texts: str) -> str:
    """A name of a problem that does not depend on its file or position, so that its split does not either."""
    words = "\n".join(" ".join(text.split()) for text in texts)
    return f"truthseekinggym-{blake2b(words.encode(), digest_size=8).hexdigest()}"


def _problems(skipped: Counter[str], folder: str) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield places, names of files, and problems."""
    top = Path(folder)
    if not top.exists():
        raise BadInput(f"There is no folder {folder}; give the folder of TruthSeekingGym's data with -T folder=")
    below = (path for path in top.rglob("*.json*") if path.suffix in (".json", ".jsonl") and path.is_file())
    files = [top] if top.is_file() else sorted(below)
    if not files:
        raise BadInput(f"{folder} has no .json or .jsonl file; give the folder of TruthSeekingGym's data")
    for path in files:
        if any(fnmatch(path.name, run) for run in RUNS):
            skipped["files of runs, whose format is not public"] += 1
            continue
        for number, problem in enumerate(_entries(path), start=1):
            if isinstance(problem, dict) and isinstance(problem.get("question"), str) and problem["question"].strip():
                place = path.name if top.is_file() else path.relative_to(top).as_posix()
                yield f"{place} problem {number}", path.stem, problem
            else:
                skipped["entries without a question"] += 1


def _entries(path: Path) -> list[Any]:
    if path.suffix == ".jsonl":
        return [row for _, row in read_rows(path)]
    content = read_json(path, "correct it, or remove it from the folder")
    return content if isinstance(content, list) else [content]
