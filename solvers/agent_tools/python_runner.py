"""Run a program in a process of its own: `python3 -I -B python_runner.py FOLDER`.

Uses the standard library only and runs on old versions of Python, since it is also copied into sandboxes. Reads
FOLDER/input.json and writes FOLDER/result.json, with the `secret` of the input: a result that the program writes itself
does not count. Output is discarded. Of a user's grader the result is `{"grade": NUMBER}` or `{"error": REASON}`. Of a
function that is called on inputs it is `{"replies": [...]}`, each a JSON text, or None where there is none. Of a script
it is `{"failure": TRACEBACK}`, "" for none. Writes a byte to its standard output just before the program starts: what
fails earlier is the machine's fault.
"""

import json
import os
import sys
import traceback
from typing import Any

MAX_MEMORY, MAX_FILE = 4 * 1024**3, 64 * 1024**2
"""Maximum bytes of address space, and of one file."""
MAX_TRACEBACK = 2000
"""Maximum characters of a traceback, from its end."""
MAX_REPLY = 500
"""Maximum characters of what a function returns, and of its arguments afterwards."""
WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGE_EVENTS = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate", "os.chmod",
           "os.chown", "os.utime", "os.setxattr", "os.removexattr", "shutil.", "sqlite3.connect")  # fmt: skip
"""Audit events that change the files named in them."""
FORBIDDEN_EVENTS = ("socket.connect", "socket.bind", "socket.sendto", "socket.sendmsg", "socket.getaddrinfo",
             "socket.gethostby", "os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "os.startfile",
             "os.kill", "subprocess.", "pty.", "signal.pthread_kill")  # fmt: skip
"""Audit events that reach the network or other processes."""


CREATE, ADD_RULE, RESTRICT_SELF = 444, 445, 446
"""System calls of Landlock, the same on every machine."""
WRITE_FILE, READ_FILE, READ_DIR, ALL_FILES = 1 << 1, 1 << 2, 1 << 3, (13, 14, 15, 15, 16, 16)
"""Rights to files, and the number of rights that Landlock knows by its version."""
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store", "/etc/ld.so.cache")
"""What a module in C may need besides the standard library."""
SYSTEM = ("/dev/urandom", "/dev/random", "/dev/zero", "/proc/self", "/proc/sys", "/proc/cpuinfo", "/proc/meminfo")
"""What a grader may read of the system."""


def landlock_version() -> int:
    """The version of Landlock of this system's kernel (Linux 5.13 and later, unless switched off); 0 without it."""
    if not sys.platform.startswith("linux"):
        return 0
    import ctypes

    return max(0, int(ctypes.CDLL(None).syscall(CREATE, None, ctypes.c_size_t(0), 1)))


def confine(folder: str, reads: bool) -> None:
    """Have the kernel refuse, for good, what lies outside the folder, other programs, processes, and TCP.

    Without `reads`, also to read files other than the standard library's: not those of installed packages. Nothing
    that runs in this process can undo it. It does nothing on a system without Landlock.
    """
    import ctypes

    version = landlock_version()
    if not version:
        return
    libc = ctypes.CDLL(None, use_errno=True)

    def call(*arguments: Any) -> int:
        result = int(libc.syscall(*arguments))
        if result < 0:
            raise OSError(ctypes.get_errno(), "Landlock: system call {}".format(arguments[0]))  # noqa: UP032
        return result

    everything = (1 << ALL_FILES[min(version, 6) - 1]) - 1
    handled = (ctypes.c_uint64 * 3)(everything, 3 if version >= 4 else 0, 3 if version >= 6 else 0)  # TCP; signals
    rules = call(CREATE, handled, ctypes.c_size_t(ctypes.sizeof(handled)), 0)

    def allow(path: str, rights: int) -> None:
        try:
            place = os.open(path, os.O_PATH)
        except OSError:
            return
        rights &= everything if os.path.isdir(path) else WRITE_FILE | READ_FILE  # noqa: PTH112
        rule = rights.to_bytes(8, sys.byteorder) + place.to_bytes(4, sys.byteorder)
        call(ADD_RULE, rules, 1, rule, 0)
        os.close(place)

    def allow_library(path: str) -> None:
        """Reading what is in a folder of libraries, but no installed packages."""
        allow(path, READ_DIR)
        for name in os.listdir(path) if os.path.isdir(path) else ():  # noqa: PTH112, PTH208
            if not name.startswith("python") and name not in ("site-packages", "dist-packages"):
                allow(os.path.join(path, name), READ_FILE | READ_DIR)  # noqa: PTH118

    library = os.path.dirname(os.path.realpath(os.__file__))  # noqa: PTH120
    for name in os.listdir("/") if reads else ():  # noqa: PTH208
        if name not in ("proc", "dev"):
            allow("/" + name, READ_FILE | READ_DIR)
    for path in SYSTEM if reads else ():  # not what the system tells of other processes, such as their environment
        allow(path, READ_FILE | READ_DIR)
    for path in () if reads else (library, os.path.dirname(library), *LIBRARIES):  # noqa: PTH120
        allow_library(path) if os.path.isdir(path) else allow(path, READ_FILE)  # noqa: PTH112
    allow(os.devnull, WRITE_FILE | READ_FILE)
    allow(folder, everything)
    libc.prctl(38, 1, 0, 0, 0)  # no new privileges, which Landlock asks for
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def guard(folder: str, reads: bool) -> None:
    """Refuse accidents with a reason that says what is wrong: a seat belt, which code can take off on purpose.

    What holds against malice is `confine`, where the system has it.
    """
    inside = os.path.realpath(folder) + os.sep
    library = os.path.dirname(os.path.realpath(os.__file__)) + os.sep  # noqa: PTH120
    packages = library + "site-packages" + os.sep

    def readable(path: Any) -> bool:  # noqa: ANN401
        if reads or within(path):
            return True
        real = os.path.realpath(os.fsdecode(path))
        return real.startswith(library) and not real.startswith(packages)

    def within(path: Any) -> bool:  # noqa: ANN401
        if not isinstance(path, (str, bytes, os.PathLike)) or path in (":memory:", ""):
            return True  # an open file descriptor, or a database in memory
        real = os.path.realpath(os.fsdecode(path))
        return real == os.devnull or (real + os.sep).startswith(inside)

    def watch(event: str, args: Any) -> None:  # noqa: ANN401
        if event == "open":
            path, mode, flags = args
            writes = flags & WRITE_FLAGS if isinstance(flags, int) else set(mode or "") & set("wax+")
            if writes and not within(path):
                raise PermissionError("a grader may not write outside its folder: {!r}".format(path))  # noqa: UP032
            if not readable(path):
                raise PermissionError("a program may not read outside its folder: {!r}".format(path))  # noqa: UP032
        elif not reads and event.startswith("ctypes."):
            raise PermissionError("a program may not load other libraries: {}".format(event))  # noqa: UP032
        elif event.startswith(CHANGE_EVENTS):
            if not all(within(path) for path in args):
                raise PermissionError("a grader may not change files outside its folder: {}".format(event))  # noqa: UP032
        elif event.startswith(FORBIDDEN_EVENTS):
            raise PermissionError("a grader may not reach the network or other processes: {}".format(event))  # noqa: UP032

    sys.addaudithook(watch)


def limit(seconds: int) -> None:
    """Limit CPU time, memory and the size of files, if the system supports it."""
    try:
        import resource
    except ImportError:
        return
    limits = {"RLIMIT_CPU": seconds + 1, "RLIMIT_AS": MAX_MEMORY, "RLIMIT_FSIZE": MAX_FILE, "RLIMIT_CORE": 0}
    for name, value in limits.items():
        try:
            resource.setrlimit(getattr(resource, name), (value, value))
        except (AttributeError, OSError, ValueError):
            continue


def outcome(source: str, sample: object, item: object) -> dict[str, Any]:
    """The grader's result, or why it has none."""
    try:
        names: dict[str, Any] = {"__name__": "grader"}
        exec(compile(source, "grader.py", "exec"), names)
        result = names["grade"](sample, item)
        if isinstance(result, bool) or not hasattr(result, "__float__"):
            return {"error": "returned {}, which is not a number".format(repr(result)[:80])}  # noqa: UP032
        return {"grade": float(result)}
    except MemoryError:
        return {"error": "needs more memory than the limit"}
    except BaseException as error:
        return {"error": "raised {}: {}".format(type(error).__name__, str(error)[:300])}  # noqa: UP032


def replies(source: str, function: str, calls: Any, dumps: Any) -> list[Any]:  # noqa: ANN401
    """What a function returns on each list of arguments, and these arguments afterwards, as the JSON text of a pair.

    None where it raised an error, or where JSON has no such value. The expected values are not in this process.
    """
    names: dict[str, Any] = {"__name__": "program"}
    texts: list[Any] = [None] * len(calls)
    try:
        exec(compile(source, "program.py", "exec"), names)
    except BaseException:
        return texts
    for i, arguments in enumerate(calls):
        try:
            text = dumps([names[function](*arguments), arguments])  # now: a later call may change what was returned
            texts[i] = text if len(text) <= MAX_REPLY else None
        except BaseException:
            continue
    return texts


def failure(source: str) -> str:
    """What ended a script, as Python prints it; "" if nothing did."""
    try:
        exec(compile(source, "program.py", "exec"), {"__name__": "__main__"})
    except SystemExit as error:
        return "exit status {}".format(error.code) if error.code else ""  # noqa: UP032
    except BaseException:
        return traceback.format_exc()[-MAX_TRACEBACK:]
    return ""


def main(folder: str) -> None:
    os.chdir(folder)
    result = os.path.join(os.path.realpath(folder), "result.json")  # noqa: PTH118
    with open("input.json", encoding="utf-8") as file:  # noqa: PTH123
        message = json.load(file)
    secret = message.pop("secret")
    with open("input.json", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(message, file)  # the program must not find it here
    started = os.dup(1)
    devnull = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(devnull, stream)
    write, dumps = os.write, json.dumps
    limit(message["seconds"])
    if message["guarded"]:
        confine(folder, reads="sample" in message)
        guard(folder, reads="sample" in message)
    write(started, b"1")
    os.close(started)
    if "calls" in message:
        reply: dict[str, Any] = {"replies": replies(message["source"], message["function"], message["calls"], dumps)}
    elif "sample" not in message:
        reply = {"failure": failure(message["source"])}
    else:
        reply = outcome(message["source"], message["sample"], message["item"])
    content = dumps(dict(reply, secret=secret))
    target = os.open(result, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    write(target, content.encode())
    os._exit(0)  # threads that the grader left behind would keep it alive


if __name__ == "__main__":
    main(sys.argv[1])
