"""Run a user's grader, alone in a process of its own: `python3 -I -B python_runner.py FOLDER`.

Standard library alone, and plain enough for an old Python: it is sent into sandboxes too. Reads FOLDER/input.json and
writes FOLDER/result.json, `{"grade": NUMBER}` or `{"error": WHY}`. What the grader prints goes nowhere.
"""

import json
import os
import sys
from typing import Any

MEMORY, FILE = 4 * 1024**3, 64 * 1024**2
"""Bytes of address space, and of one file."""
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.utime", "os.setxattr", "os.removexattr", "shutil.", "sqlite3.connect")  # fmt: skip
"""Events of Python's audit that change the files they name."""
FORBIDDEN = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
             "socket.gethostby", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile",
             "os.kill", "subprocess.", "pty.", "signal.pthread_kill")  # fmt: skip
"""Events that reach the network or other processes."""


def guard(folder: str) -> None:
    """Refuse what a grader does by accident: writing outside its folder, the network, other processes.

    It is no defence against malice: code that means to can get round it.
    """
    inside = os.path.realpath(folder) + os.sep

    def within(path: Any) -> bool:  # noqa: ANN401
        if not isinstance(path, (str, bytes, os.PathLike)) or path in (":memory:", ""):
            return True  # a file that is open already
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or (real + os.sep).startswith(inside)

    def watch(event: str, args: Any) -> None:  # noqa: ANN401
        if event == "open":
            path, mode, flags = args
            writes = flags & WRITES if isinstance(flags, int) else set(mode or "") & set("wax+")
            if writes and not within(path):
                raise PermissionError("a grader may not write outside its folder: {!r}".format(path))  # noqa: UP032
        elif event.startswith(CHANGES):
            if not all(within(path) for path in args):
                raise PermissionError("a grader may not change files outside its folder: {}".format(event))  # noqa: UP032
        elif event.startswith(FORBIDDEN):
            raise PermissionError("a grader may not reach the network or other processes: {}".format(event))  # noqa: UP032

    sys.addaudithook(watch)


def limit(seconds: int) -> None:
    """Bound CPU time, memory and the size of files, where the system can."""
    try:
        import resource
    except ImportError:
        return
    for name, most in (("RLIMIT_CPU", seconds + 1), ("RLIMIT_AS", MEMORY), ("RLIMIT_FSIZE", FILE), ("RLIMIT_CORE", 0)):
        try:
            resource.setrlimit(getattr(resource, name), (most, most))
        except (AttributeError, OSError, ValueError):
            continue


def outcome(source: str, sample: object, item: object) -> dict[str, Any]:
    """What the grader returns, or why it returns nothing that can be used."""
    try:
        names: dict[str, Any] = {"__name__": "grader"}
        exec(compile(source, "grader.py", "exec"), names)
        found = names["grade"](sample, item)
        if isinstance(found, bool) or not hasattr(found, "__float__"):
            return {"error": "returned {}, which is no number".format(repr(found)[:80])}  # noqa: UP032
        return {"grade": float(found)}
    except MemoryError:
        return {"error": "needs more memory than it may have"}
    except BaseException as error:
        return {"error": "raised {}: {}".format(type(error).__name__, str(error)[:300])}  # noqa: UP032


def main(folder: str) -> None:
    """Run the grader that lies in a folder."""
    os.chdir(folder)
    result = os.path.join(os.path.realpath(folder), "result.json")  # noqa: PTH118
    with open("input.json", encoding="utf-8") as file:  # noqa: PTH123
        given = json.load(file)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    write, dumps = os.write, json.dumps
    limit(given["seconds"])
    if given["guarded"]:
        guard(folder)
    said = dumps(outcome(given["source"], given["sample"], given["item"]))
    to = os.open(result, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    write(to, said.encode())
    os._exit(0)  # threads that the grader left behind would keep it alive


if __name__ == "__main__":
    main(sys.argv[1])
