"""Builds the wheel and the sdist of the present commit and tries each where nothing else of the project is.

python docs/release.py OUT        (pip install -e ".[release]")

Each is installed in a fresh environment, away from the checkout. There the README's first run must give the README's
figures, `truthgym compare` must read its log, and two of five of those tests must pass that need neither the checkout
nor an extra: about a quarter of all. No test, log or large file may be inside, and no file of a room may be missing.
"""

import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).parent.parent
LARGEST = 1_000_000
"""Bytes of the largest file that a release may hold."""
TESTED = ("analysis", "datasets", "evallog", "models", "scorers", "solvers", "tasks")
"""Folders of tests of which most need no extra."""
NEEDS_MORE = re.compile(
    r"\bstudies\b|\broot\b|\bROOT\b|parents\[|\b(torch|transformers|trl|ray|smollm2|fastapi)\b|tests\.commands"
)
"""Found in tests that read the checkout, load what only an extra brings, or fork processes as Windows cannot."""
SAMPLE = (
    "def pytest_collection_modifyitems(items):\n    items[:] = [one for at, one in enumerate(items) if at % 5 < 2]\n"
)
"""A conftest.py that runs two of five tests."""
SETTINGS = """
[pytest]
addopts = --import-mode=importlib
pythonpath = .
python_functions = test_*
python_classes =
markers =
    slow
    server
"""
FIGURES = """
import json, sys
from inspect_ai.log import list_eval_logs, read_eval_log
(log,) = list_eval_logs(sys.argv[1])
scores = read_eval_log(log, header_only=True).results.scores
print(json.dumps([[name, f"{metric.value:.3f}"] for score in scores for name, metric in score.metrics.items()]))
"""


def main(out: Path) -> None:
    """Build, check and try a release.

    Args:
        out: The folder that gets the wheel and the sdist. Those of an earlier release are left there.
    """
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "source")
        source.mkdir()
        run("git", "archive", "--output", str(Path(folder, "source.tar")), "HEAD", cwd=ROOT)
        with tarfile.open(Path(folder, "source.tar")) as archive:
            archive.extractall(source, filter="data")
        wanted = files_of_rooms(source)
        run(sys.executable, "-m", "build", "--outdir", str(Path(folder, "dist")), str(source), cwd=source)
        built = sorted(Path(folder, "dist").iterdir())
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, built), cwd=source)
        for file in built:
            prefix = "truthgym/" if file.suffix == ".whl" else f"{file.name.removesuffix('.tar.gz')}/"
            found = faults(content(file), wanted, prefix)
            if found:
                sys.exit(f"{file.name}:\n" + "\n".join(found))
        for file in built:
            print(f"{file.name}: {len(content(file))} files", flush=True)
            try_out(file, source, Path(folder, file.suffix.strip(".")))
        out.mkdir(parents=True, exist_ok=True)
        for file in built:
            (out / file.name).write_bytes(file.read_bytes())
            print(f"{out / file.name}: {file.stat().st_size / 1e6:.1f} MB")


def files_of_rooms(source: Path) -> set[str]:
    """All files of the rooms, as their paths in the source."""
    rooms = tomllib.loads((source / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["setuptools"]["package-dir"]
    paths = (path for room in rooms.values() for path in (source / room).rglob("*") if path.is_file())
    return {path.relative_to(source).as_posix() for path in paths}


def content(file: Path) -> dict[str, int]:
    """The files of a wheel or sdist, with their sizes in bytes."""
    if file.suffix == ".whl":
        with zipfile.ZipFile(file) as wheel:
            return {one.filename: one.file_size for one in wheel.infolist()}
    with tarfile.open(file) as sdist:
        return {one.name: one.size for one in sdist if one.isfile()}


def faults(held: Mapping[str, int], wanted: Iterable[str], prefix: str) -> list[str]:
    """What is missing, too large, or does not belong into a release; empty if all is right.

    Args:
        held: The files of a wheel or sdist, with their sizes in bytes.
        wanted: The paths that it must hold, below `prefix`.
        prefix: The folder in which the package lies: "truthgym/" in a wheel.
    """
    found = [
        f"{name} is missing: see [tool.setuptools] in pyproject.toml" for name in wanted if prefix + name not in held
    ]
    for name, size in held.items():
        path = PurePosixPath(name)
        test = "tests" in path.parts[:-1] or (path.suffix == ".py" and path.name.startswith("test_"))
        if test or path.suffix in (".eval", ".log", ".ipynb", ".safetensors") or path.parts[1:2] == ("logs",):
            found.append(f"{name} does not belong into a release: see MANIFEST.in")
        if size > LARGEST:
            found.append(f"{name} has {size:,} bytes; a release holds none over {LARGEST:,}")
    return sorted(found)


def try_out(file: Path, source: Path, folder: Path) -> None:
    """Install a wheel or sdist in a fresh environment, and run the README's job and tests from it."""
    venv.create(folder / "env", with_pip=True)
    scripts = folder / "env" / ("Scripts" if os.name == "nt" else "bin")
    python = str(scripts / "python")
    run(python, "-m", "pip", "install", "-q", f"{file}[charts]", "pytest", "pytest-xdist", "hypothesis", cwd=folder)
    work = folder / "work"
    work.mkdir()
    where = "import truthgym.tasks, sys; print(truthgym.tasks.__file__)"
    place = run(python, "-c", where, cwd=work).strip()
    if not Path(place).is_relative_to(folder / "env"):
        sys.exit(f"{file.name}: the package was imported from {place}, not from the fresh environment")

    inspect = str(scripts / "inspect")
    run(inspect, *readme_command(source)[1:], "--log-dir", "logs", "--display", "none", cwd=work)
    figures = json.loads(run(python, "-c", FIGURES, "logs", cwd=work))
    for name, shown in readme_figures(source):
        if [name, shown] not in figures:
            sys.exit(f"{file.name}: {name} is {[value for other, value in figures if other == name]}, not {shown}")
    run(str(scripts / "truthgym"), "compare", *[str(next((work / "logs").glob("*.eval")))] * 2, cwd=work)

    tests = sorted(copy_tests(source, work))
    said = run(
        python,
        "-m",
        "pytest",
        "-q",
        "-n",
        "2",
        "-m",
        "not slow",
        "-p",
        "no:cacheprovider",
        "--disable-warnings",
        "--show-capture=no",
        "--tb=short",
        *tests,
        cwd=work,
    )
    print(f"{file.name}: the README's run gives the README's figures; {said.strip().splitlines()[-1]}", flush=True)


def readme_command(source: Path) -> list[str]:
    """The words of the README's first `inspect eval`."""
    found = re.search(r"inspect eval [^\n`]*", (source / "README.md").read_text(encoding="utf-8"))
    if not found:
        sys.exit("README.md: no command `inspect eval`")
    return found[0].split()


def readme_figures(source: Path) -> list[tuple[str, str]]:
    """The names and values of the table below the README's first command."""
    table = (source / "README.md").read_text(encoding="utf-8").split("```")[3]
    return re.findall(r"([a-z_]+) +(-?\d+\.\d{3}|nan)\b", table)


def copy_tests(source: Path, work: Path) -> Iterable[str]:
    """Copy the tests, and yield the files to run."""
    (work / "pytest.ini").write_text(SETTINGS, encoding="utf-8")
    (work / "conftest.py").write_text(SAMPLE, encoding="utf-8")
    for path in (source / "tests").rglob("*"):
        copy = work / path.relative_to(source)
        if path.is_file():
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
        tested = path.match("test_*.py") and path.relative_to(source).parts[1] in TESTED
        if tested and not NEEDS_MORE.search(path.read_text(encoding="utf-8")):
            yield copy.relative_to(work).as_posix()


def run(*command: str, cwd: Path) -> str:
    """What a command prints. If it fails, all ends with what it wrote."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "INSPECT_LOG_DIR")}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        errors="replace",
        check=False,
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)[:300]}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
    return done.stdout


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "dist").absolute())
