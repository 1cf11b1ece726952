"""How long do the pages of `truthgym ui` take with many logs and setups, compared with reading the logs' headers?

python -m studies.speed.ui --logs 1000 --setups 200

In one process, in turn: Inspect's `list_eval_logs` and `read_eval_log(header_only=True)` of each log, then each page
twice: as after the server's start, and again. CPU time of the process; the registry and Inspect are loaded before.
"""

import tempfile
from functools import partial
from pathlib import Path

from fastapi.testclient import TestClient
from inspect_ai.log import list_eval_logs, read_eval_log

from studies.speed.report import make
from studies.speed.timing import arguments, cpu_seconds
from truthgym.ui import setups
from truthgym.ui.app import app
from truthgym.ui.setups import Setup

ADDRESS = "http://127.0.0.1:7580"
FIELDS = {"verb": ["eval"], "tasks": ["truthgym/urns"], "models": ["reference/bayesian"]}
PAGES = {"results": "/results", "results, all of them": "/results?all=1", "setups": "/"}


def read_headers(folder: Path) -> None:
    for log in list_eval_logs(str(folder)):
        read_eval_log(log, header_only=True)


def load(client: TestClient, address: str) -> None:
    answer = client.get(address)
    assert answer.status_code == 200, answer.text


def main(logs: int, samples: int, count: int) -> None:
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as empty:
        folder = Path(name)
        make(folder, logs, samples)
        for number in range(count):
            setups.save(folder, Setup(f"setup{number}", FIELDS | {"--limit": [str(number + 1)]}))
        other = TestClient(app(Path(empty)), base_url=ADDRESS)
        for address in PAGES.values():  # imports, templates and the registry
            load(other, address)
        read_headers(folder / "first")
        client = TestClient(app(folder), base_url=ADDRESS)
        headers = cpu_seconds(lambda: read_headers(folder / "logs"))
        for label, address in PAGES.items():
            first, again = (cpu_seconds(partial(load, client, address)) for _ in range(2))
            print(f"{label}: first / headers = {first / headers:.3f}, again / headers = {again / headers:.3f}")


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("--logs", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=20, help="samples of each log")
    parser.add_argument("--setups", type=int, default=200)
    args = parser.parse_args()
    main(args.logs, args.samples, args.setups)
