"""The page in headless Chromium: by clicks, by the keyboard alone, and in each width and color scheme."""

import shutil
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import pytest
from inspect_ai.log import read_eval_log

from tests.ui.conftest import kill_all
from truthgym.analysis.site.build import build
from truthgym.ui import jobs as run_jobs
from truthgym.ui.app import app, listen
from truthgym.ui.jobs import find, jobs, start
from truthgym.ui.pages import compose
from truthgym.ui.pages.compose import CostEstimate

if TYPE_CHECKING:
    from playwright.sync_api import Browser, ConsoleMessage

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
SAMPLES = Path(__file__).parents[2] / "examples" / "logs"
LONGEST = 60_000
"""Milliseconds that a test waits for what must come, on a busy machine."""
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
NAMELESS = """() => [...document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary")]
  .filter((one) => !(one.ariaLabel || [...(one.labels || [])].map((label) => label.textContent).join("").trim()
    || (one.matches("a, button, summary") && one.textContent.trim()))).map((one) => one.outerHTML)"""
OVERFLOW = "() => document.scrollingElement.scrollWidth - innerWidth"


@dataclass(frozen=True)
class Site:
    """A server of the page."""

    address: str
    folder: Path


@contextmanager
def served(folder: Path, token: str | None = None) -> Iterator[Site]:
    """A server in this process. What it started is killed in the end."""
    import uvicorn

    listener: socket.socket = listen("127.0.0.1", 0)
    config = uvicorn.Config(app(folder, token), log_level="warning", http="h11", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield Site(f"http://127.0.0.1:{listener.getsockname()[1]}", folder)
    finally:
        server.should_exit = True
        thread.join()
        kill_all(folder)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server in a folder with a run and two logs."""
    folder = tmp_path_factory.mktemp("studies")
    (folder / "logs").mkdir()
    for log in sorted(SAMPLES.glob("*_urns_*.eval"))[:2]:
        shutil.copy(log, folder / "logs")
    start(folder, [sys.executable, "-c", "print('over')"], "short")
    with served(folder) as site:
        yield site


@pytest.fixture(scope="module")
def chromium() -> "Iterator[Browser]":
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield browser
        browser.close()


class Visit:
    """A page in a window of its own, with what went wrong in it."""

    def __init__(
        self, chromium: "Browser", site: Site, width: int = 1400, scheme: Literal["light", "dark"] = "light"
    ) -> None:
        self.site = site
        self.wrong: list[str] = []
        self.context = chromium.new_context(
            base_url=site.address, viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        self.context.set_default_timeout(LONGEST)
        self.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=site.address)
        self.page = self.context.new_page()
        self.page.on("console", self.log)
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("request", lambda request: self.outside(request.url))
        playwright.expect.set_options(timeout=LONGEST)
        self.see = playwright.expect

    def log(self, message: "ConsoleMessage") -> None:
        if message.type == "error":
            self.wrong.append(f"{message.text} {message.location['url']}")

    def outside(self, url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and not url.startswith(f"{self.site.address}/"):
            self.wrong.append(url)

    def launch(self, name: str) -> str:
        """Launch what is composed, once the page shows the command of the new name. Gives the run's id."""
        self.page.get_by_label("Name of the setup").fill(name)
        self.see(self.page.locator("#command1")).to_contain_text(f"logs/{name}")
        self.page.get_by_role("button", name="Launch").click()
        self.see(self.page.get_by_role("heading", level=1)).to_have_text(name)
        return urlsplit(self.page.url).path.rpartition("/")[2]

    def status(self, text: str) -> None:
        self.see(self.page.locator("#state .status")).to_have_text(text, timeout=LONGEST)

    def close(self) -> None:
        self.context.close()
        assert self.wrong == []


@pytest.fixture
def visit(chromium: "Browser", site: Site) -> Iterator[Visit]:
    visit = Visit(chromium, site)
    yield visit
    visit.close()


@pytest.mark.slow
def test_runs_are_composed_watched_cancelled_resumed_opened_and_compared_by_clicks(
    visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run_cost(command: list[str], folder: Path) -> CostEstimate:
        return CostEstimate(command, "| model | calls |\n|---|---|\n| a | 4 |\n")

    monkeypatch.setattr(compose, "run_cost", run_cost)  # tests/ui/test_compose.py runs the command
    page, see = visit.page, visit.see
    page.goto("/")
    see(page.get_by_role("checkbox", name="forecasting", exact=False).first).to_be_checked()
    see(page.get_by_label("Models, with commas between them")).to_have_value("reference/bayesian")
    page.get_by_label("limit", exact=True).fill("4")
    see(page.locator("#command1")).to_contain_text("--limit 4")
    page.get_by_role("button", name="Estimate").click()
    see(page.locator("#estimate table").first).to_be_visible()
    see(page.locator("#estimate")).to_contain_text("calls")
    # In place of the eval one that ends at once, with a log made before: tests/ui/test_jobs.py runs and resumes evals.
    made = next(log for log in SAMPLES.glob("*_forecasting_*.eval") if _model_of(log).startswith("reference/"))
    instead: list[list[str]] = [["install", "-D", str(made), f"logs/walked/{made.name}"], ["sleep", "600"]]

    def begin(folder: Path, words: list[str], name: str, **options: Any) -> run_jobs.Job:
        launched.append(words)
        return start(folder, instead.pop(0), name, log_dir=f"logs/{name}")

    launched: list[list[str]] = []
    monkeypatch.setattr(run_jobs, "start", begin)
    first = visit.launch("walked")
    visit.status("done")
    assert launched[0][-4:] == ["--display", "plain", "--log-dir", "logs/walked"]
    see(page.locator("#state progress")).to_be_visible()
    copy = page.locator("#copy")
    copy.click()
    see(copy).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.locator("#command").text_content()
    page.locator("#log-1").click()
    see(page.get_by_text("forecasting").first).to_be_visible()
    see(page.get_by_text("brier").first).to_be_visible()

    page.goto("/?setup=walked")
    page.get_by_label("limit", exact=True).fill("")
    page.get_by_label("epochs", exact=True).fill("200")
    see(page.locator("#command1")).to_contain_text("--epochs 200")
    page.get_by_label("Name of the setup").fill("long")
    second = visit.launch("long")
    visit.status("running")
    page.reload()
    page.get_by_role("button", name="Cancel the run").click()
    visit.status("cancelled")
    page.get_by_role("button", name="Resume the run").click()
    visit.status("running")
    assert [find(visit.site.folder, run).status for run in (first, second)] == ["done", "running"]

    page.get_by_role("link", name="Results").first.click()
    for path in visit.site.folder.glob("logs/*_urns_*.eval"):
        page.get_by_role("checkbox", name=f"Tick logs/{path.name}").check()
    page.get_by_role("button", name="Compare the ticked logs").click()
    see(page.get_by_role("heading", level=1)).to_have_text("Comparison")
    see(page.get_by_role("region", name="Differences").locator("table").first).to_be_visible()
    see(page.locator("#command")).to_contain_text("truthgym compare logs/")


def _model_of(log: Path) -> str:
    return read_eval_log(str(log), header_only=True).eval.model


@pytest.fixture(scope="module")
def reported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a report."""
    folder = tmp_path_factory.mktemp("reported")
    logs = [log for log in sorted(SAMPLES.glob("*_urns_*.eval")) if _model_of(log) == "reference/bayesian"]
    build(logs[:2], folder / "reports" / "mine", only=["calibration"])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("token", [None, "0123456789abcdef"])
def test_a_report_draws_its_charts_in_its_sandbox(chromium: "Browser", reported: Path, token: str | None) -> None:
    pytest.importorskip("vl_convert", reason="the extra charts is not installed")
    with served(reported, token) as site:
        visit = Visit(chromium, site)
        if token:
            visit.page.goto("/login")
            visit.page.get_by_label("Token").fill(token)
            visit.page.keyboard.press("Enter")
            visit.see(visit.page.get_by_role("heading", level=1)).to_be_visible()
            visit.page.wait_for_url("**/")
        visit.page.goto("/results")
        picture = visit.page.locator(".charts img")
        visit.see(picture).to_be_visible()
        assert picture.evaluate("image => image.decode().then(() => image.naturalWidth)") > 100
        visit.page.get_by_role("link", name="mine", exact=True).click()
        visit.page.get_by_role("navigation").get_by_role("link", name="calibration", exact=True).click()
        visit.see(visit.page.locator("#chart svg.marks")).to_be_visible()
        assert visit.page.evaluate("window.origin") == "null", "the page is in no sandbox"
        if token:  # the picture in the place of the chart until that is drawn; it has data, so it needs the cookie
            visit.wrong = [line for line in visit.wrong if not line.endswith("/reports/mine/calibration.svg")]
        visit.close()


@pytest.mark.slow
def test_a_run_is_launched_by_the_keyboard_alone(visit: Visit, monkeypatch: pytest.MonkeyPatch) -> None:
    page, launched = visit.page, list[list[str]]()

    def begin(folder: Path, words: list[str], name: str, **options: Any) -> run_jobs.Job:
        launched.append(words)
        return start(folder, ["true"], name)

    monkeypatch.setattr(run_jobs, "start", begin)

    def tab_to(name: str) -> None:
        """Press Tab until a control has the focus: there are at most a few hundred."""
        for _ in range(400):
            page.keyboard.press("Tab")
            if (
                page.evaluate("document.activeElement.labels?.[0]?.textContent || document.activeElement.textContent")
                == name
            ):
                return
        raise AssertionError(f"Tab never reaches {name!r}")

    page.goto("/")
    tab_to("limit")
    page.keyboard.type("2")
    tab_to("Name of the setup")
    page.keyboard.type("keys")
    visit.see(page.locator("#command1")).to_contain_text("--limit 2")
    visit.see(page.locator("#command1")).to_contain_text("logs/keys")
    tab_to("Launch")
    page.keyboard.press("Enter")
    visit.see(page.get_by_role("heading", level=1)).to_have_text("keys")
    assert [words[-2:] for words in launched] == [["--log-dir", "logs/keys"]]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(420, "light"), (1400, "dark")])
def test_each_page_fits_its_window_and_names_its_controls(
    chromium: "Browser", site: Site, width: int, scheme: Literal["light", "dark"]
) -> None:
    visit = Visit(chromium, site, width, scheme)
    (run,) = (job for job in jobs(site.folder) if job.name == "short")
    pages = [f"/?verb={verb}" for verb in ("eval", "score", "convert", "train", "loop", "report", "sweep")]
    logs = [f"log={path.relative_to(site.folder)}" for path in site.folder.glob("logs/*.eval")]
    pages += ["/runs", f"/runs/{run.id}", "/results", f"/results/script?{logs[0]}", "/login"]
    pages.append(f"/results/compare?{'&'.join(logs)}")
    for path in pages:
        visit.page.goto(path)
        assert visit.page.evaluate(OVERFLOW) <= 0, path
        assert visit.page.evaluate(NAMELESS) == [], path
        paper = visit.page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        light = sum(int(part) for part in paper.removeprefix("rgb(").removesuffix(")").split(",")) > 3 * 128
        assert light == (scheme == "light"), path
    visit.close()
