"""What a search leaves: its arms on held-out prompts, a report, a manifest, and a script that repeats it."""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from truthgym.datasets.errors import BadInput
from truthgym.scorers.rubrics.rubric import Rubric, digest
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.training.files import markdown_table, write_atomically
from truthgym.training.search.config import SearchConfig
from truthgym.training.search.objective import Objective, rounded

RESULT = "search.json"
ARMS = {
    "search": "what the search found",
    "no_rubric": "the judge's impression, by one criterion that names nothing",
    "prompt_only": "what the initialiser wrote from the prompts",
    "human_rubric": "a rubric that a person wrote",
}
PACKAGES = ("truthgym", "inspect-ai", "numpy", "pydantic")
SCRIPT = """#!/usr/bin/env bash
# Repeats a search for a rubric and compares the result. Run it in a clean clone in which truthgym is installed:
#   bash reproduce.sh [FOLDER OF THE CLONE] [NEW FOLDER FOR THE RESULT]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
clone=${1:-.}
out=$(realpath -m "${2:-$(mktemp -d)/search}")
cd "$clone"
"""


@dataclass(frozen=True)
class Arm:
    """A rubric measured on both parts of the prompts."""

    rubric: Rubric
    searched: Objective
    held_out: Objective

    def row(self, search: "Arm") -> dict[str, Any]:
        """Its figures, and the difference of the search's result to it on the same held-out prompts."""
        gain = mean_estimate(search.held_out.by_prompt - self.held_out.by_prompt)
        return {
            "rubric": self.rubric.model_dump(mode="json"),
            "rubric_digest": self.rubric.digest,
            "searched": _figures(self.searched),
            "held_out": _figures(self.held_out),
            "search_minus_this": _interval(gain) if self is not search else None,
        }


def _figures(values: Objective) -> dict[str, Any]:
    return {
        "objective": _interval(values.total),
        "tail_acc": rounded(values.tail_acc),
        "tail_var": rounded(values.tail_var),
        "diverse_tail_acc": rounded(values.diverse_tail_acc),
        "recall_at_tail": rounded(values.recall),
        "pairs": values.pairs,
        "diverse_pairs": values.diverse_pairs,
        "prompts": len(values.by_prompt),
    }


def _interval(value: Estimate) -> dict[str, float | None]:
    return {"estimate": rounded(value.estimate), "lower": rounded(value.lower), "upper": rounded(value.upper)}


def verdict(arms: dict[str, dict[str, Any]]) -> str:
    """One sentence: which of the arms the search beats on held-out prompts."""
    lower = {name: (arm["search_minus_this"] or {}).get("lower") for name, arm in arms.items()}
    better = [name for name, bound in lower.items() if bound is not None and bound > 0]
    others = [name for name in arms if name != "search" and name not in better]
    if not better:
        return "On held-out prompts the search was not shown to beat any arm."
    rest = f" It was not shown to beat {', '.join(others)}." if others else ""
    return f"On held-out prompts the search beats {', '.join(better)}.{rest}"


def write_result(folder: Path, content: dict[str, Any], manifest: dict[str, Any]) -> dict[str, Any]:
    """Write `search.json` with the digest of its content, the report, the manifest and the script."""
    result: dict[str, Any] = {"digest": digest(content), "content": content, "run_manifest": manifest}
    write_atomically(folder / RESULT, json.dumps(result, ensure_ascii=False, indent=1))
    write_atomically(folder / "report.md", _report(content))
    write_atomically(folder / "run_manifest.json", json.dumps(manifest, indent=1))
    write_atomically(folder / "reproduce.sh", _script(manifest, result["digest"]))
    return result


def read_result(path: Path) -> dict[str, Any]:
    """Read a search's result, from its folder or file, and check its digest."""
    file = path / RESULT if path.is_dir() else path
    try:
        result: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        content = result["content"]
    except (OSError, ValueError, KeyError, TypeError):
        raise BadInput(
            f"{path} is not the result of a search; give the folder that `truthgym rubric search` wrote"
        ) from None
    if digest(content) != result.get("digest"):
        raise BadInput(
            f"{path}: the content has the digest {digest(content)}, not {result.get('digest')}: it was changed"
        )
    return result


def run_manifest(folder: Path, arguments: Sequence[str], config: SearchConfig, prompts: str) -> dict[str, Any]:
    """What a run was: code, packages, options and digests, without a path of this machine. `ModelSpec` refuses keys."""
    commit = _git("rev-parse", "HEAD")
    return {
        "folder": folder.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")) if commit else None,
        "python": platform.python_version(),
        "platform": sys.platform,
        "packages": {name: version(name) for name in PACKAGES},
        "arguments": list(arguments),
        "seed": config.seed,
        "config_digest": config.digest,
        "prompts_digest": prompts,
    }


def _script(manifest: dict[str, Any], digest: str) -> str:
    """`reproduce.sh`, which reads the copy of the prompts beside it."""
    lines = []
    if commit := manifest["commit"]:
        lines += [
            f'test "$(git rev-parse HEAD)" = {commit} ||',
            f'  {{ echo "this clone is not at the commit of the search; git checkout {commit}"; exit 1; }}',
        ]
    if manifest["uncommitted_changes"]:
        lines.append('echo "the search was run with changes that had not been committed: the result may differ" >&2')
    options = f" {shlex.join(manifest['arguments'])}" if manifest["arguments"] else ""
    lines += [
        f'truthgym rubric search --dataset "$here/prompts.json" --out "$out"{options}',
        f'truthgym rubric verify "$out" --digest {digest}',
    ]
    return SCRIPT + "\n".join(lines) + "\n"


def _git(*arguments: str) -> str:
    """What git says in the folder of the code; empty if there is no repository."""
    code = Path(__file__).resolve().parent
    process = subprocess.run(["git", "-C", str(code), *arguments], capture_output=True, text=True, check=False)
    return process.stdout.strip() if process.returncode == 0 else ""


def _report(content: dict[str, Any]) -> str:
    config, arms = content["config"], content["arms"]
    sd = float("nan") if content["repeat_sd"] is None else content["repeat_sd"]
    criteria = "\n".join(
        f"- {criterion['text']} (weight {criterion['weight']:g})" for criterion in content["rubrics"][-1]["criteria"]
    )
    prompts = {part: arms["search"][part]["prompts"] for part in ("searched", "held_out")}
    return f"""# A search for a rubric

{content["verdict"]}

{_table(arms)}

Intervals are 95 %, over {prompts["held_out"]} held-out prompts; {prompts["searched"]} prompts were
searched. {"; ".join(f"{name}: {what}" for name, what in ARMS.items())}.

The verifiers are {", ".join(v["model"] for v in config["verifiers"])}, in the search and in this report: what fools
them in one fools them in the other. One vote's score has a standard deviation of {sd:.3g} when it is repeated.

## The rubric

{criteria}
"""


def _table(arms: dict[str, dict[str, Any]]) -> str:
    """The arms as Markdown, the search first."""
    rows = [
        (
            name,
            str(len(arm["rubric"]["criteria"])),
            _number(arm["searched"]["objective"]["estimate"]),
            _bounds(arm["held_out"]["objective"]),
            _number(arm["held_out"]["tail_acc"]),
            _number(arm["held_out"]["recall_at_tail"]),
            _bounds(arm["search_minus_this"]) if arm["search_minus_this"] else "",
        )
        for name, arm in arms.items()
    ]
    head = (
        "arm", "criteria", "objective, searched prompts", "objective, held-out prompts", "TailAcc", "recall at tail",
        "search minus this",
    )  # fmt: skip
    return markdown_table(head, rows)


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _bounds(value: dict[str, float | None]) -> str:
    if value["lower"] is None:
        return f"{_number(value['estimate'])} (no interval)"
    return f"{_number(value['estimate'])} [{_number(value['lower'])}, {_number(value['upper'])}]"
