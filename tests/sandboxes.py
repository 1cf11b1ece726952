"""Stand-ins for isolating sandboxes: folders in which programs are run. They isolate nothing."""

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, ClassVar

import anyio
from inspect_ai.util import ExecResult, SandboxEnvironment, sandboxenv


class Folder(SandboxEnvironment):
    """A stand-in for an isolating sandbox: each is a folder, with programs run in it. It isolates nothing."""

    ran: ClassVar[list[tuple[str, list[str]]]] = []
    names: ClassVar[tuple[str, ...]] = ("default",)

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name, self.folder = name, tempfile.mkdtemp(prefix=f"sandbox-{name}-")

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        self.ran.append((self.name, cmd))
        shown = {**os.environ, "TMPDIR": self.folder}

        def call() -> ExecResult[str]:
            try:
                done = subprocess.run(
                    cmd,
                    cwd=cwd or self.folder,
                    env=shown,
                    capture_output=True,
                    timeout=timeout,
                    check=False,
                    input=input.encode() if isinstance(input, str) else input,
                )
            except subprocess.TimeoutExpired as error:
                raise TimeoutError(str(error)) from None
            return ExecResult(done.returncode == 0, done.returncode, done.stdout.decode(), done.stderr.decode())

        return await anyio.to_thread.run_sync(call)

    async def write_file(self, file: str, contents: str | bytes) -> None:
        data = contents.encode() if isinstance(contents, str) else contents
        (Path(self.folder) / file).write_bytes(data)

    async def read_file(self, file: str, text: bool = True) -> Any:
        data = (Path(self.folder) / file).read_bytes()
        return data.decode() if text else data

    @classmethod
    async def sample_init(cls, task_name: str, config: Any, metadata: dict[str, str]) -> dict[str, SandboxEnvironment]:
        return {name: cls(name) for name in cls.names}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: dict[str, SandboxEnvironment], interrupted: bool
    ) -> None:
        for environment in environments.values():
            folder = Path(environment.as_type(Folder).folder)
            assert not list(folder.iterdir()), "a grader left something behind"
            folder.rmdir()


class TwoFolders(Folder):
    """One for the model, one for graders."""

    names: ClassVar[tuple[str, ...]] = ("default", "grader")


@sandboxenv(name="folders")
def folders() -> type[SandboxEnvironment]:
    return Folder


@sandboxenv(name="two_folders")
def two_folders() -> type[SandboxEnvironment]:
    return TwoFolders
