"""What does loading our registry add to Inspect's own import?

    python -m studies.speed.registry_import

Each import runs in a fresh Python, in turn; CPU seconds inside it, the median of 9 runs each. All modules are compiled
before, into a cache of its own, since an environment with PYTHONDONTWRITEBYTECODE would compile only ours every time.
"""

import os
import statistics
import subprocess
import sys
import tempfile

PROBE = "import time; start = time.process_time(); import {what}; print(time.process_time() - start)"
IMPORTS = {"inspect_ai": "inspect_ai", "with the registry": "inspect_ai, truthgym.tasks"}


def cpu_seconds(what: str, compiled: str) -> float:
    environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled, "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", PROBE.format(what=what)]
    return float(subprocess.run(command, env=environment, capture_output=True, check=True).stdout)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as compiled:
        spent: dict[str, list[float]] = {name: [] for name in IMPORTS}
        for turn in range(10):
            for name, what in IMPORTS.items():
                seconds = cpu_seconds(what, compiled)
                if turn:  # the first run compiles
                    spent[name].append(seconds)
    alone, together = (statistics.median(spent[name]) for name in IMPORTS)
    print(f"the registry adds {together - alone:.2f} CPU s; with it / alone = {together / alone:.2f}")
