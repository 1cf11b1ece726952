"""`evallog` and `training/conversion` load neither inspect_ai nor anything heavy."""

import subprocess
import sys
from pathlib import Path

HEAVY = {"inspect_ai", "numpy", "pandas", "pyarrow", "torch", "transformers"}


def test_their_modules_load_nothing_heavy(root: Path, environment: dict[str, str]) -> None:
    paths = [
        *(root / "evallog").glob("*.py"),
        *(root / "training/conversion").glob("*.py"),
        root / "training/convert.py",
    ]
    modules = [".".join(("truthgym", *path.relative_to(root).with_suffix("").parts)) for path in paths]
    assert len(modules) > 10
    script = f"import sys, {', '.join(modules)}\nprint({HEAVY!r} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout == "set()\n"
