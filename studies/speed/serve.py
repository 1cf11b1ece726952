"""Does the reward server lose, reorder or slow down anything while its judge dies again and again?

    python -m studies.speed.serve

A stub judge (another process) grades each reply by a number in it, so that every reward can be checked. What is served
is a rubric artifact that names this judge. In the first part the judge is killed at random while mixed requests of all
doors arrive, each repeated by the rule of its trainer (`RULES`); what a trainer gives up is lost. In the second part it
takes two seconds a grade. Prints what was lost at each door, what was misplaced, the rate, and the server's memory.
"""

import argparse
import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from math import inf
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import psutil

from studies.speed.timing import arguments, resident_memory

NUMBER = re.compile(r"Number (\d+)\.")
CHAT = "<|im_start|>user\nWhich?<|im_end|>\n<|im_start|>assistant\n"
IN_FLIGHT = 100
RULES: dict[str, tuple[float, Callable[[int, random.Random], float]]] = {
    "/get_reward": (5, lambda _, draw: 1.0),  # OpenRLHF
    "/remote_rm": (10, lambda n, draw: min(2.0**n, 30) + draw.random()),  # slime
    "/score": (inf, lambda n, draw: draw.uniform(0, min(0.2 * 2.0**n, 10))),  # truthgym.training.served_rewards
    "/batch_score": (inf, lambda n, draw: draw.uniform(0, min(0.2 * 2.0**n, 10))),
}
"""By door its trainer's number of tries, and seconds before the next one."""
PATIENCE = 900.0
"""Seconds after which our own client gives up."""


def judge(port: int, seconds: float) -> None:
    """Serve the stub judge: OpenAI's chat completions."""
    import uvicorn
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def complete(body: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(seconds)
        number = int(NUMBER.findall(body["messages"][-1]["content"])[-1])
        content = json.dumps({"reasons": "a stub", "grade": number % 101 / 100})
        choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        about = {"id": "x", "object": "chat.completion", "created": 0, "model": "judge"}
        return about | {"choices": [choice], "usage": usage}

    uvicorn.run(app, host="127.0.0.1", port=port, log_level="critical")


def artifact(folder: Path) -> Path:
    """A rubric with one criterion, which the stub judge grades."""
    from truthgym.scorers.rubrics.reward import Artifact, Content, ModelSpec, RubricReward
    from truthgym.scorers.rubrics.rubric import Criterion, Rubric

    rubric = Rubric(name="stub", criteria=(Criterion(id="grade", text="Says a number."),), scale="0-1")
    reward = RubricReward(rubrics=(rubric,), judges=(ModelSpec(model="openai-api/stub/judge"),))
    path = folder / "rm.json"
    path.write_text(json.dumps(Artifact.of(Content(reward=reward)).model_dump(mode="json")))
    return path


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def start(command: list[str], url: str, **environment: str) -> "subprocess.Popen[bytes]":
    """Start a process and wait until it answers."""
    process = subprocess.Popen([sys.executable, *command], env={**os.environ, **environment})
    for _ in range(3000):
        try:
            httpx.get(url, timeout=2)
            return process
        except httpx.HTTPError:
            time.sleep(0.1)
    raise SystemExit(f"{command} does not answer")


def request_of(numbers: list[int], draw: random.Random) -> tuple[str, Any]:
    """A request of one of the doors for replies with these numbers."""
    replies = [f"Number {number}. So it is." for number in numbers]
    kind = draw.choice(["/batch_score", "/get_reward"] if len(replies) > 1 else ["/score", "/get_reward", "/remote_rm"])
    items = [{"prompt": "Which?", "response": reply} for reply in replies]
    match kind:
        case "/batch_score":
            return kind, {"items": items}
        case "/score":
            return kind, items[0]
        case "/remote_rm":
            return kind, {**items[0], "label": ""}
    return kind, {"query": [CHAT + reply for reply in replies], "prompts": [CHAT] * len(replies)}


def rewards_in(path: str, answer: Any) -> list[float | None]:  # noqa: ANN401
    match path:
        case "/batch_score":
            return [result["reward"] for result in answer["results"]]
        case "/score":
            return [answer["reward"]]
        case "/remote_rm":
            return [answer]
    return list(answer["rewards"])


async def ask(http: httpx.AsyncClient, numbers: list[int], draw: random.Random, count: Counter[str]) -> None:
    """Send a request until every item has a reward or its trainer gives up, and check the rewards."""
    path, body = request_of(numbers, draw)
    expected = [number % 101 / 100 for number in numbers]
    tries, wait = RULES[path]
    begun, n = time.perf_counter(), 0
    while n < tries and time.perf_counter() - begun < PATIENCE:
        status = ""
        try:
            response = await http.post(path, json=body)
            status = str(response.status_code)
        except httpx.TransportError as error:  # trainers try again, too
            status = type(error).__name__
        count[f"status {status}"] += 1
        if status == "200":
            rewards = rewards_in(path, response.json())
            if None not in rewards:
                count["requests"] += 1
                count["items"] += len(rewards)
                count["misplaced"] += rewards != expected
                return
        await asyncio.sleep(wait(n, draw))
        n += 1
    count[f"lost {path}"] += 1


async def load(url: str, requests: list[list[int]], seed: int) -> tuple[Counter[str], float]:
    """Send all requests, at most `IN_FLIGHT` at a time. Returns the counts and the seconds."""
    count, slots, draw = Counter[str](), asyncio.Semaphore(IN_FLIGHT), random.Random(seed)
    limits = httpx.Limits(max_connections=IN_FLIGHT)
    async with httpx.AsyncClient(base_url=url, timeout=200, limits=limits) as http:

        async def send(numbers: list[int]) -> None:
            async with slots:
                await ask(http, numbers, draw, count)

        begun = time.perf_counter()
        await asyncio.gather(*map(send, requests))
        return count, time.perf_counter() - begun


async def watch(process: "subprocess.Popen[bytes]", memory: list[float]) -> None:
    """Record the server's memory every second, in MB."""
    while True:
        memory.append(resident_memory(process.pid))
        await asyncio.sleep(1)


def cpu_seconds(process: "subprocess.Popen[bytes]") -> float:
    used = psutil.Process(process.pid).cpu_times()
    return float(used.user + used.system)


def run(part: str, requests: list[list[int]], seconds: float, kill_every: float, folder: Path, seed: int) -> None:
    """One part: start both processes, send everything, and print what came of it."""
    judge_port, port = free_port(), free_port()
    command = ["-m", "studies.speed.serve", "--judge", str(judge_port), "--seconds", str(seconds)]
    upstream = {"process": start(command, f"http://127.0.0.1:{judge_port}/")}
    url, log = f"http://127.0.0.1:{port}", folder / f"{part}.jsonl"
    serve = ["-m", "truthgym.cli.main", "serve", "--scorer", "rubric", "-S", f"rubric={artifact(folder)}"]
    serve += ["-S", "cache=false", "--port", str(port), "--log", str(log)]
    stub = {"STUB_API_KEY": "none", "STUB_BASE_URL": f"http://127.0.0.1:{judge_port}/v1"}
    server = start(serve, f"{url}/livez", INSPECT_CACHE_DIR=str(folder / "cache"), **stub)
    before = cpu_seconds(server)
    memory: list[float] = []
    kills = 0

    async def killing() -> None:
        nonlocal kills
        draw = random.Random(seed)
        while kill_every:
            await asyncio.sleep(draw.expovariate(1 / kill_every))
            upstream["process"].kill()
            kills += 1
            await asyncio.sleep(draw.uniform(0, 2))
            upstream["process"] = subprocess.Popen([sys.executable, *command])

    async def whole() -> tuple[Counter[str], float]:
        others = [asyncio.create_task(watch(server, memory)), asyncio.create_task(killing())]
        found = await load(url, requests, seed)
        for task in others:
            task.cancel()
        return found

    try:
        count, wall = asyncio.run(whole())
        cpu = cpu_seconds(server)
    finally:
        server.terminate()
        server.wait()
        upstream["process"].kill()
    lines = sum(1 for _ in log.open())
    answers = sum(number for status, number in count.items() if status.startswith("status"))
    half = len(memory) // 2
    growth = median(memory[half:]) / median(memory[len(memory) // 5 : half] or memory)
    statuses = {status: number for status, number in sorted(count.items()) if status.startswith("status")}
    lost = {path: count[f"lost {path}"] for path in RULES if count[f"lost {path}"]} or "none"
    print(f"{part}: {count['requests']} requests answered, {count['items']} items, lost: {lost}, "
          f"{count['misplaced']} misplaced; judge killed {kills} times; {count['items'] / wall:.1f} items a second; "
          f"{statuses}; {lines} log lines for {answers} answers; memory {max(memory):.0f} MB, second half / first half "
          f"{growth:.2f}; {1000 * (cpu - before) / count['items']:.1f} ms of CPU an item; "
          f"exit status {server.returncode}", flush=True)  # fmt: skip


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--kill-every", type=float, default=20, help="mean seconds between two deaths of the judge")
    parser.add_argument("--slow-items", type=int, default=1024, help="items of the part with a judge of two seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--judge", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.judge:
        judge(args.judge, args.seconds)
        return
    draw = random.Random(args.seed)
    # Every tenth request is a batch; a twentieth of the replies were sent before.
    requests, number = [], 0
    for i in range(args.requests):
        size = draw.randint(2, 8) if i % 10 == 0 else 1
        requests.append([number := number + (draw.random() > 0.05) for _ in range(size)])
    with tempfile.TemporaryDirectory() as folder:
        run("killed at random", requests, 0.0, args.kill_every, Path(folder), args.seed)
        run("two seconds a grade", [[i] for i in range(args.slow_items)], 2.0, 0, Path(folder), args.seed)


if __name__ == "__main__":
    main()
