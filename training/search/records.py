"""How a search can be repeated: a manifest, and a script that runs in a clean clone and compares the result."""

import json
import platform
import shlex
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from truthgym.training.files import write_atomically
from truthgym.training.search.config import SearchConfig

PACKAGES = ("truthgym", "inspect-ai", "numpy", "pydantic", "gepa")
SCRIPT = "reproduce.sh"
HEAD = """#!/usr/bin/env bash
# Repeats a search for a rubric and compares the result. Run it in a clean clone in which truthgym is installed:
#   bash reproduce.sh [FOLDER OF THE CLONE] [NEW FOLDER FOR THE RESULT]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
clone=${1:-.}
out=$(realpath -m "${2:-$(mktemp -d)/search}")
"""


def manifest(folder: Path, arguments: Sequence[str], config: SearchConfig, prompts: str) -> dict[str, Any]:
    """What a run was: code, packages, options and digests, without a path of this machine. `ModelSpec` refuses keys."""
    commit = _git("rev-parse", "HEAD")
    return {
        "folder": folder.name,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit,
        "uncommitted_changes": bool(_git("status", "--porcelain", "--untracked-files=no")) if commit else None,
        "python": platform.python_version(),
        "platform": sys.platform,
        "packages": {name: _version(name) for name in PACKAGES},
        "arguments": list(arguments),
        "seed": config.seed,
        "config_digest": config.digest,
        "prompts_digest": prompts,
    }


def write_script(folder: Path, manifest: dict[str, Any], digest: str) -> Path:
    """Write the manifest and `reproduce.sh` beside the result. The script reads the copy of the prompts beside it."""
    write_atomically(folder / "run_manifest.json", json.dumps(manifest, indent=1))
    lines = [HEAD, 'cd "$clone"']
    if manifest["commit"]:
        lines += [
            f'test "$(git rev-parse HEAD)" = {manifest["commit"]} ||',
            f'  {{ echo "this clone is not at the commit of the search; git checkout {manifest["commit"]}"; exit 1; }}',
        ]
    if manifest["uncommitted_changes"]:
        lines.append('echo "the search was run with changes that had not been committed: the result may differ" >&2')
    options = " ".join(shlex.quote(argument) for argument in manifest["arguments"])
    lines += [
        f'truthgym rubric search --dataset "$here/prompts.json" --out "$out" {options}'.rstrip(),
        f'truthgym rubric verify "$out" --digest {digest}',
    ]
    return write_atomically(folder / SCRIPT, "\n".join(lines) + "\n")


def _git(*arguments: str) -> str:
    """What git says in the folder of the code; empty if there is no repository."""
    code = Path(__file__).resolve().parent
    done = subprocess.run(["git", "-C", str(code), *arguments], capture_output=True, text=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else ""


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
