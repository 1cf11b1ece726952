"""The pages of runs and of results: the logs of the folder, compared, reports, scripts that repeat runs, the viewer."""

import math
import shlex
from collections.abc import Iterator
from datetime import datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from fastapi.staticfiles import StaticFiles
from fsspec.implementations.local import LocalFileSystem
from markupsafe import Markup

from truthgym.analysis.tables.setups import Run, bare_name, with_setups
from truthgym.datasets.errors import BadInput
from truthgym.datasets.inspect_private import PrerequisiteError
from truthgym.evallog.discovery import LogFile, LogState, every_log, log_states
from truthgym.evallog.errors import MALFORMED
from truthgym.tasks.domain_task import SCORER_BY_NAME
from truthgym.ui import jobs, setups
from truthgym.ui.forms.commands import value_of
from truthgym.ui.jobs import RUNS, SAYS
from truthgym.ui.pages.rendering import folder_of, form_fields, page

router = APIRouter()
SHOWN = 200
"""Most logs in the table, unless all are asked for, and most runs in theirs."""
LINES, ALL_LINES = 40, 5_000
"""Lines of the output on a run's page, and on the page of its output."""
SHORT = 30
"""Most characters of a value by which questions may be divided."""
REPORTS = "reports"
"""Folder of the reports that the page has written."""
REPORT_HEADERS = {
    "content-security-policy": "sandbox allow-scripts allow-popups allow-downloads; default-src 'self' 'unsafe-inline' "
    "data:; script-src 'self' 'unsafe-inline' 'unsafe-eval'; connect-src 'none'; frame-ancestors 'self'; "
    "base-uri 'none'",
    "cross-origin-resource-policy": "cross-origin",
}
"""A report's scripts draw its charts. In a sandbox they reach nothing of this server."""


class FilesWithHeaders(StaticFiles):
    """The files of a folder, each answered with some headers."""

    def __init__(self, headers: dict[str, str], **options: Any) -> None:
        super().__init__(html=True, **options)
        self.headers = headers

    async def check_config(self) -> None:
        """A folder that is made later, as that of the reports, has no files yet."""

    def file_response(self, *args: Any, **options: Any) -> Response:
        response = super().file_response(*args, **options)
        response.headers.update(self.headers)
        return response


def mount_viewer(app: FastAPI, folder: Path) -> None:
    """Add the reports, and the viewer, which reads and edits logs of the folder alone, and deletes none."""
    from truthgym.datasets import inspect_private

    class LogsOnly(inspect_private.OnlyDirAccessPolicy):
        """Inspect's own policy lets through every file below the folder, also by a link that leads out of it."""

        async def can_read(self, request: Request, file: str) -> bool:
            return await super().can_read(request, file) and is_log(folder, file)

        async def can_write(self, request: Request, file: str) -> bool:
            return await super().can_write(request, file) and is_log(folder, file)

        async def can_list(self, request: Request, dir: str) -> bool:
            return await super().can_list(request, dir) and local(dir).is_relative_to(folder.resolve())

        async def can_delete(self, request: Request, file: str) -> bool:
            return False

    dist = inspect_private.resolve_dist_directory()
    place = str(folder.resolve())
    api = inspect_private.view_server_app(default_dir=place, access_policy=LogsOnly(place), allow_direct_urls=False)
    unused = [route for route in api.routes if getattr(route, "path", "") in ("/docs", "/redoc", "/openapi.json")]
    api.router.routes = [route for route in api.routes if route not in unused]
    for kind in (*MALFORMED, OSError):  # of a damaged sample
        api.add_exception_handler(kind, lambda request, error: PlainTextResponse("This log is damaged.\n", 400))
    policy = inspect_private.read_content_security_policy(dist) or "default-src 'self'"
    headers = {"content-security-policy": f"{policy}; frame-ancestors 'self'"}
    app.mount("/api", api)
    app.mount("/view", FilesWithHeaders(headers, directory=dist))
    app.mount(f"/{REPORTS}", FilesWithHeaders(REPORT_HEADERS, directory=folder / REPORTS, check_dir=False))


def local(file: str) -> Path:
    """A path as Inspect names it, also file://..., with links followed."""
    return Path(str(LocalFileSystem._strip_protocol(file))).resolve()


def is_log(folder: Path, file: str) -> bool:
    """Whether a file is a log in the folder that can be read, and not in that of runs, whose records are JSON too."""
    path, root = local(file), folder.resolve()
    inside = path.is_relative_to(root) and not path.is_relative_to(root / RUNS)
    if not inside or path.suffix not in (".eval", ".json") or path.name.startswith(".") or not path.is_file():
        return False
    return isinstance(_log(str(path), path.stat().st_size, path.stat().st_mtime), LogFile)


def viewer_address(folder: Path, log: str) -> str:
    """The address at which the viewer shows a log of the folder."""
    path = Path(log).resolve()
    relative = path.relative_to(folder) if path.is_relative_to(folder) else path
    return f"/view/#/logs/{quote(str(relative))}"


@router.get("/results")
def results(request: Request, all: bool = False) -> HTMLResponse:
    folder = folder_of(request)
    rows, problems = catalog(folder)
    live = tuple(f"{job.place / job.log_dir}/" for job in jobs.jobs(folder) if job.live and job.log_dir)
    listed = [row | _details(row["run"]) | {"live": row["status"] == "started" and row["log"].startswith(live)}
              for row in (rows if all else rows[:SHOWN])]  # fmt: skip
    reports = sorted((index.parent.name for index in folder.glob(f"{REPORTS}/*/index.html")), reverse=True)
    return page(
        request,
        "results.html",
        rows=listed,
        more=0 if all else max(len(rows) - SHOWN, 0),
        problems=problems,
        fields=list(dict.fromkeys(field for row in listed for field in row["fields"])),
        reports=reports,
        charts=charts(folder, reports[0]) if reports else [],
    )


@router.get("/results/compare")
def compare(request: Request) -> HTMLResponse:
    """The ticked logs, each with the first one, question by question."""
    from truthgym.analysis.compare import compare as compared
    from truthgym.analysis.compare import report
    from truthgym.analysis.site.page import tables

    folder = folder_of(request)
    logs = [inside(folder, log) for log in request.query_params.getlist("log")]
    if len(logs) < 2:
        raise BadInput(f"{len(logs)} log is ticked; tick two or more of the same questions, the first one first")
    table = Markup(tables(report(compared(logs))))
    command = shlex.join(["truthgym", "compare", *(str(log.relative_to(folder)) for log in logs)])
    named = [(log.name, viewer_address(folder, str(log))) for log in logs]
    return page(request, "compare.html", table=table, command=command, logs=named)


@router.get("/results/script")
@router.get("/results/script.py")
def script(request: Request, log: str) -> Response:
    """The script that repeats a run, on a page or as a file."""
    from truthgym.ui.repeat import repeat

    place = inside(folder_of(request), log)
    text = repeat(place, folder_of(request))
    if not request.url.path.endswith(".py"):
        download = f"/results/script.py?{urlencode({'log': log})}"
        return page(request, "script.html", script=text, name=place.name, download=download)
    name = f"repeat_{place.stem}.py".encode("ascii", "replace").decode().replace('"', "")
    return PlainTextResponse(text, headers={"content-disposition": f'attachment; filename="{name}"'})


@router.post("/results/report")
async def report(request: Request) -> Response:
    """Start `truthgym report` of the ticked logs; of all if none is ticked."""
    folder = folder_of(request)
    form = await form_fields(request)
    ticked = [str(inside(folder, log).relative_to(folder)) for log in form.get("log", [])]
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{token_hex(3)}"
    words = ["truthgym", "report", *(ticked or ["."]), "--out", f"{REPORTS}/{name}"]
    if by := value_of(form, "by"):
        words.append(f"--by={by}")
    job = jobs.start(folder, words, "report", at_once=request.app.state.at_once)
    return RedirectResponse(f"/runs/{job.id}", 303)


def charts(folder: Path, report: str) -> list[tuple[str, str, str]]:
    """The charts that a report has drawn: for each its question, its page and its picture."""
    from truthgym.analysis.site.analyses import ANALYSES, BATCHES, analysis

    place, drawn = folder / REPORTS / report, f"/{REPORTS}/{quote(report)}"
    return [
        (analysis(name).QUESTION, f"{drawn}/{name}.html", f"{drawn}/{name}.svg")
        for name in (BATCHES, *ANALYSES) if (place / f"{name}.svg").is_file() and (place / f"{name}.html").is_file()
    ]  # fmt: skip


def catalog(folder: Path) -> tuple[list[dict[str, Any]], list[str]]:
    """The rows of `truthgym.analysis.catalog`, newest first, and a line for each file that is no whole log."""
    try:
        states = tuple(log_states([folder]))
    except PrerequisiteError:
        return [], []
    return _catalog(folder, states)


@lru_cache(maxsize=2)
def _catalog(folder: Path, states: tuple[LogState, ...]) -> tuple[list[dict[str, Any]], list[str]]:
    """The catalog of files in a certain state, which is the key of the cache, with what the scorers found."""
    from truthgym.analysis.catalog import table_of

    read = [_log(*state) for state in states if f"/{REPORTS}/" not in state[0]]
    runs = with_setups([entry for entry in read if isinstance(entry, LogFile)])
    rows: list[dict[Any, Any]] = table_of(runs).to_dict("records") if runs else []
    for row, run in zip(rows, runs, strict=True):
        row["path"] = str(Path(row["log"]).relative_to(folder))
        row["viewer"] = viewer_address(folder, row["log"])
        row["began"] = row["created"][:16].replace("T", " ")
        row["run"] = run
    return rows, [entry for entry in read if isinstance(entry, str)]


def _details(run: Run) -> dict[str, Any]:
    """What the scorers of a run found, what its figures leave out, and by which fields its questions may be divided."""
    try:
        return {"fields": _fields(run), "left_out": run.log.reader.omissions, "found": list(_found(run))}
    except PrerequisiteError as error:
        return {"fields": [], "left_out": [plain(error)], "found": []}


def _found(run: Run) -> Iterator[dict[str, Any]]:
    """What each scorer of a run found: its estimate with the interval, a sentence, and what to doubt."""
    from truthgym.analysis.performance import estimates, meaning, sentence
    from truthgym.analysis.tables.markdown import with_interval

    for row in estimates(run):
        declaration = SCORER_BY_NAME.get(bare_name(row["scorer"]))
        keys = [key for key in row["flags"].split(", ") if key not in ("", row["reason"])]
        unread = f"{1 - row['share_read']:.0%} of the answers could not be read, and are left out"
        doubts = [unread] * (row["share_read"] < 1) + [meaning(key, declaration).partition(". ")[0] for key in keys]
        yield {
            "scorer": row["scorer"],
            "estimate": with_interval(row["score"], row["lower"], row["upper"]),
            "n": "" if math.isnan(row["n"]) else f"{row['n']:,.0f} questions",
            "sentence": sentence(row),
            "doubts": "; ".join(doubts),
        }


def _fields(run: Run) -> list[str]:
    """The fields of a run's first question that are short enough to divide the questions by."""
    from truthgym.analysis.tables.answers import fields_of

    for _, sample in islice(run.log.reader.outcomes(), 1):
        return [name for name, value in fields_of(sample).items()
                if isinstance(value, str | int | float) and len(str(value)) <= SHORT]  # fmt: skip
    return []


@lru_cache(maxsize=20_000)
def _log(path: str, size: int, modified: float) -> LogFile | str:
    """A log with its header, read once while the file does not change, or why it cannot be read."""
    try:
        return every_log([path])[0]
    except PrerequisiteError as error:
        return plain(error)
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"


def plain(error: PrerequisiteError) -> str:
    """The message of an error without the marks of rich."""
    from rich.text import Text

    return Text.from_markup(str(error.message)).plain


def inside(folder: Path, log: str) -> Path:
    """A log by its path in the folder."""
    path = (folder / log).resolve()
    if not path.is_relative_to(folder) or path.suffix not in (".eval", ".json") or not path.is_file():
        raise BadInput(f"There is no log {log[:200]!r} in {folder}; it may have been deleted meanwhile")
    return path


@router.get("/runs")
@router.get("/runs/list")
def runs(request: Request) -> HTMLResponse:
    """The runs, or their list alone, which the page asks for again while something is in progress."""
    every = jobs.jobs(folder_of(request))
    listed = [(job, jobs.progress(job) if job.live else None) for job in every[:SHOWN]]
    values: dict[str, Any] = {
        "runs": listed,
        "live": any(job.live for job, _ in listed),
        "more": len(every) - len(listed),
    }
    return page(request, "runs_list.html" if request.url.path.endswith("list") else "runs.html", **values)


@router.get("/runs/{run}")
def run_page(request: Request, run: str) -> HTMLResponse:
    return page(request, "run.html", **_run(request, run))


@router.get("/runs/{run}/state")
def state(request: Request, run: str) -> HTMLResponse:
    """What changes on the page of a run."""
    try:
        return page(request, "run_state.html", **_run(request, run))
    except BadInput as error:  # with 200: htmx shows no other
        return page(request, "gone.html", problem=plain(error))


@router.get("/runs/{run}/output")
def output(request: Request, run: str) -> PlainTextResponse:
    text = jobs.output(jobs.find(folder_of(request), run), ALL_LINES) + "\n"
    return PlainTextResponse(text.encode(errors="replace"))


@router.post("/runs/{run}/cancel")
@router.post("/runs/{run}/resume")
def act(request: Request, run: str) -> Response:
    """Cancel or resume a run."""
    action = jobs.cancel if request.url.path.endswith("cancel") else jobs.resume
    action(jobs.find(folder_of(request), run))
    return RedirectResponse(f"/runs/{run}", 303)


def _run(request: Request, run: str) -> dict[str, Any]:
    job = jobs.find(folder_of(request), run)
    command, says = jobs.next_command(job) if not job.live else ([], "")
    progress, report = jobs.progress(job), _report_of(job)
    logs = [(Path(log.path).name, viewer_address(job.place, log.path), log.header.status) for log in progress.logs]
    its_setups = (name for name in setups.names(job.place) if name in (job.name, job.name.rpartition("-")[0]))
    return {
        "job": job,
        "says": SAYS[job.status],
        "progress": progress,
        "logs": logs,
        "report": f"/{REPORTS}/{quote(report)}/index.html" if report else "",
        "charts": charts(job.place, report) if report else [],
        "setup": next(its_setups, ""),
        "tail": jobs.output(job, LINES),
        "command": shlex.join(job.command),
        "next_command": shlex.join(command),
        "next_says": says,
    }


def _report_of(job: jobs.Job) -> str:
    """The name of the report that a run wrote; "" if it wrote none."""
    name = Path(jobs.option(job.first_command, "--out")).name
    return name if name and (job.place / REPORTS / name / "index.html").is_file() else ""
