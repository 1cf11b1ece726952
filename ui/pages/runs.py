"""The pages of runs: which there are, how far each is, what it prints, and how to end it or go on with it."""

import shlex
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response

from truthgym.datasets.errors import BadInput
from truthgym.ui import jobs, setups
from truthgym.ui.jobs import SAYS
from truthgym.ui.pages.rendering import folder_of, page
from truthgym.ui.pages.results import REPORTS, charts, plain, viewer_address

router = APIRouter()
SHOWN = 200
"""Most runs in the list."""
LINES, ALL_LINES = 40, 5_000
"""Lines of the output on a run's page, and on the page of its output."""


@router.get("/runs")
def runs(request: Request) -> HTMLResponse:
    return page(request, "runs.html", **_list(request))


@router.get("/runs/list")
def runs_list(request: Request) -> HTMLResponse:
    """The list alone, which the page asks for again while something is in progress."""
    return page(request, "runs_list.html", **_list(request))


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
def cancel(request: Request, run: str) -> Response:
    jobs.cancel(jobs.find(folder_of(request), run))
    return RedirectResponse(f"/runs/{run}", 303)


@router.post("/runs/{run}/resume")
def resume(request: Request, run: str) -> Response:
    jobs.resume(jobs.find(folder_of(request), run))
    return RedirectResponse(f"/runs/{run}", 303)


def _list(request: Request) -> dict[str, Any]:
    all_jobs = jobs.jobs(folder_of(request))
    listed = all_jobs[:SHOWN]
    return {
        "runs": [(job, jobs.progress(job) if job.live else None) for job in listed],
        "live": any(job.live for job in listed),
        "more": len(all_jobs) - len(listed),
    }


def _run(request: Request, run: str) -> dict[str, Any]:
    job = jobs.find(folder_of(request), run)
    command, says = jobs.next_command(job) if not job.live else ([], "")
    progress, report = jobs.progress(job), _report(job)
    return {
        "job": job,
        "says": SAYS[job.status],
        "progress": progress,
        "logs": [
            (Path(log.path).name, viewer_address(job.place, log.path), log.header.status) for log in progress.logs
        ],
        "report": f"/{REPORTS}/{quote(report)}/index.html" if report else "",
        "charts": charts(job.place, report) if report else [],
        "setup": next(
            (name for name in setups.names(job.place) if name in (job.name, job.name.rpartition("-")[0])), ""
        ),
        "tail": jobs.output(job, LINES),
        "command": shlex.join(job.command),
        "next_command": shlex.join(command),
        "next_says": says,
    }


def _report(job: jobs.Job) -> str:
    """The name of the report that a run wrote; "" if it wrote none."""
    name = Path(jobs.option(job.first_command, "--out")).name
    return name if name and (job.place / REPORTS / name / "index.html").is_file() else ""
