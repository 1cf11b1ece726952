"""Hidden tests: what passes them, and what tries to get round them."""

import asyncio
import json

import pytest
from inspect_ai.log import EvalSample
from inspect_ai.model import ChatMessage, ModelOutput

from tests.fixtures import Fails, Run, listens, metrics, samples, says, score_of
from tests.sandboxes import Folder
from truthgym.datasets.code_repair import RepairQuestion, code_repair, find_program
from truthgym.datasets.loading.domain import bundled_file
from truthgym.datasets.loading.row_files import read_rows
from truthgym.scorers.graders.grader import Grade, GraderInput, grade
from truthgym.scorers.graders.python import ProgramOptions, hidden_tests
from truthgym.solvers.agent_tools.python_runner import landlock_version
from truthgym.solvers.run_agent import run_agent
from truthgym.tasks.agents import code_repair as task

ROWS = {row["function"]: row for _, row in read_rows(bundled_file("code_repair"))}
ITEMS = {item.metadata_as(RepairQuestion).function: item for item in code_repair()}
CLIMB = ROWS["longest_climb"]["fixed"]


def fenced(program: str) -> str:
    return f"I looked at it.\n\n```python\n{program}\n```\n"


def graded(name: str, answer: str, seconds: int = 20) -> Grade:
    item = ITEMS[name]
    arguments = GraderInput(
        item.metadata_as(RepairQuestion), str(item.input), "", answer, answer, "q", 1, item.metadata or {}
    )
    return asyncio.run(grade(hidden_tests(ProgramOptions(trusted=True, time_limit=seconds)), arguments))


@pytest.mark.parametrize("name", ["read_settings", "simple_paths", "matches"])
def test_the_repaired_function_passes(name: str) -> None:
    count = len(ROWS[name]["tests"])
    assert graded(name, fenced(ROWS[name]["fixed"])) == Grade(1, explanation=f"{count} of {count} hidden tests passed.")


@pytest.mark.parametrize(("name", "passed"), [("longest_climb", "6 of 9"), ("group_words", "2 of 8")])
def test_the_faulty_one_does_not(name: str, passed: str) -> None:
    assert graded(name, fenced(ROWS[name]["faulty"])) == Grade(0, explanation=f"{passed} hidden tests passed.")


RESULT = "import json, os\nmine = {'replies': [json.dumps([1, []])] * 9}\n"
SECRET = "import sys\nat = sys._getframe()\nwhile 'secret' not in at.f_locals: at = at.f_back\nfound = at.f_locals\n"
FORGED = "open('result.json', 'w').write(json.dumps(mine)); os._exit(0)"
ATTEMPTS = {
    "prints PASS and exits": "print('PASS'); print('9 of 9 hidden tests passed.'); raise SystemExit(0)",
    "ends the process": "import os; os._exit(0)",
    "writes the result": RESULT + FORGED,
    "writes it with the secret": RESULT + SECRET + "mine['secret'] = found['secret']\n" + FORGED,
    "equals everything": "class E:\n def __eq__(self, o): return True\n def __repr__(self): return '4'\n"
    "def longest_climb(values): return E()",
    "is a number that equals everything": "class E(int):\n def __eq__(self, o): return True\n __hash__ = None\n"
    "def longest_climb(values): return E(1)",
    "takes over json": "import json\njson.dumps = json.JSONEncoder.encode = lambda *a, **k: 'true'\n"
    "json.encoder.c_make_encoder = None\ndef longest_climb(values): return True",
    "takes over the built-ins": "import builtins\nbuiltins.len = lambda x: 9\nbuiltins.exec = builtins.compile = None\n"
    "def longest_climb(values): return len(values)",
    "looks in every frame": SECRET + "def longest_climb(values): return found['message']['tests'][0]['expected']",
    "looks at every object": "import gc\nhits = [o['expected'] for o in gc.get_objects() if type(o) is dict and "
    "'expected' in o]\ndef longest_climb(values): return hits[0]",
    "looks in the input file": "import json\ndef longest_climb(x): return json.load(open('input.json'))['expected']",
    "looks in the environment": "import os\ndef longest_climb(values): return os.environ['expected']",
    "looks in the package": "from truthgym.datasets.code_repair import code_repair",
    "changes its arguments": "def longest_climb(values):\n n = len(values)\n values.clear()\n return n",
    "overwrites the runner": "import sys\nopen(sys.argv[0], 'w').write('')",
    "forks": "import os\nos.fork()\nos.fork()",
    "needs all memory": "def longest_climb(values): return len(bytearray(10**11))",
    "fills the disk": "open('big', 'wb').truncate(10**12)",
    "returns a lot": "def longest_climb(values): return 'x' * 10**7",
    "returns a list that contains itself": "a = []\na.append(a)\ndef longest_climb(values): return a",
    "never stops calling": "def longest_climb(values): return longest_climb(values)",
}


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_an_attempt_to_get_round_the_tests_earns_nothing(attempt: str) -> None:
    body = ATTEMPTS[attempt]
    program = body if "def longest_climb" in body else f"{body}\n{ROWS['longest_climb']['faulty']}"
    result = graded("longest_climb", fenced(program))
    assert result.value == 0, result
    assert result.reason is None


AROUND = """import gc, types
for one in gc.get_objects():
    if isinstance(one, types.FunctionType) and one.__name__ == 'readable':
        for cell in one.__closure__ or ():
            if cell.cell_contents is False:
                cell.cell_contents = True
"""


@pytest.mark.parametrize("before", ["", AROUND], ids=["guarded", "around the guard"])
def test_a_program_does_not_reach_the_repairs(before: str) -> None:
    """With `trusted`, it runs on the machine that has them. What changes the guard is refused by the kernel."""
    passed = 9 if before and not landlock_version() else 0
    path = str(bundled_file("code_repair"))
    program = f"{before}import json\nrows = [json.loads(line) for line in open({path!r})]\n"
    program += "names = {}\nexec(next(row['fixed'] for row in rows if row['function'] == 'longest_climb'), names)\n"
    program += "def longest_climb(values): return names['longest_climb'](values)"
    assert graded("longest_climb", fenced(program)).explanation == f"{passed} of 9 hidden tests passed."


@pytest.mark.parametrize("body", ["while True: pass", "import time; time.sleep(99)"])
def test_a_program_that_does_not_end_earns_nothing(body: str) -> None:
    result = graded("longest_climb", fenced(f"def longest_climb(values):\n    {body}"), seconds=1)
    assert result == Grade(0, explanation="The answer's program did not end within 1 s and was killed.")


def test_noise_and_errors_elsewhere_do_no_harm() -> None:
    program = (
        f"import heapq, collections, math, re, itertools, functools, bisect, statistics\nprint('x' * 10**6)\n{CLIMB}"
    )
    assert graded("longest_climb", fenced(program)).value == 1


@pytest.mark.parametrize(
    ("answer", "found"),
    [
        ("```python\ndef f(): return 1\n```", "def f(): return 1\n"),
        ("```\ndef f(): return 1\n```\nor\n~~~py\ndef f(): return 2\n~~~", "def f(): return 2\n"),
        ("```python\ndef f(): return 1\n```\n```python\nf()\n```", "def f(): return 1\n"),
        ("def f(): return 1", "def f(): return 1"),
        ("It ends here:\n```python\ndef f(): return 1\n", "def f(): return 1\n"),
        ("1. So:\n   ```python\n   def f():\n       return 1\n   ```", "def f():\n    return 1\n"),
        ("```python\ndef f(): return 1\n```\nNow\n```\nf()", "def f(): return 1\n"),
        ("```python\ndef f(: return 1\n```", None),
        ("```python\ndef g(): return 1\n```", None),
        ("I cannot do that.", None),
        ("", None),
        ("\0" * 9, None),
    ],
)
def test_the_program_in_an_answer(answer: str, found: str | None) -> None:
    assert find_program(answer, "f") == found


@pytest.mark.parametrize(
    "answer", ["I would rather not say.", "The fault is in line 3.", "```python\nlongest_climb = 1\n```"]
)
def test_an_answer_without_the_function_earns_nothing(answer: str) -> None:
    wanted = "The answer has no Python program with a function longest_climb."
    assert graded("longest_climb", answer) == Grade(0, explanation=wanted)


@pytest.mark.parametrize(("agent", "share"), [("oracle", 1), ("careless", 0), ("looking_busy", 0)])
def test_simulated_agents_play_it(run: Run, agent: str, share: float) -> None:
    result = metrics(run(task(trusted=True, n=2), f"reference/{agent}"))
    assert (result["grade"], result["share_scored"]) == (share, 1)


def test_answers_are_graded_one_by_one(run: Run) -> None:
    names = list(ROWS)[:4]
    invented = fenced(f"def {names[3]}(*given):\n    return 1")
    answers = [fenced(ROWS[names[0]]["fixed"]), fenced(ROWS[names[1]]["faulty"]), "I cannot repair it.", invented]

    def reply(messages: list[ChatMessage]) -> str:
        return next(answers[i] for i, name in enumerate(names) if f"def {name}(" in messages[-1].text)

    log = run(task(trusted=True), says(reply), limit=4)
    values = {sample.metadata["function"]: score_of(sample, "graded").value for sample in samples(log)}
    assert [values[name] for name in names] == [{"grade": x} for x in (1, 0, 0, 0)]
    assert metrics(log)["grade"] == 0.25
    assert metrics(log)["share_scored"] == 1


def test_an_agent_with_tools_finds_no_tests_in_its_sandbox(run: Run) -> None:
    """It searches its sandbox while it works, and its program is called there only after it has answered."""
    look = "import os\nprint(*(open(os.path.join(at, name)).read() for at, _, names in os.walk('.') for name in names))"
    look += "\nprint(sorted(os.environ.items()))"

    def reply(messages: list[ChatMessage]) -> ModelOutput | str:
        if messages[-1].role == "tool":
            seen.append(messages[-1].text)
            return fenced(CLIMB)
        return ModelOutput.for_tool_call("mockllm/model", "python", {"code": look})

    seen: list[str] = []
    Folder.ran.clear()
    log = run(task(), says(reply), solver=run_agent(), sandbox="folders", sample_id="repair-longest-climb")
    done: EvalSample = samples(log)[0]
    assert score_of(done, "graded").value == {"grade": 1}
    (text,) = seen
    assert "PATH" in text
    assert "expected" not in text
    assert not any(json.dumps(test["arguments"]) in text for test in ROWS["longest_climb"]["tests"])
    commands = [command for _, command in Folder.ran]
    searched = next(i for i, command in enumerate(commands) if "bash" in command[0])
    assert searched < commands.index(["mktemp", "-d"])


def test_without_a_sandbox_the_run_ends_before_its_first_call(fails: Fails) -> None:
    model, heard = listens()
    assert "--sandbox docker" in fails(task(n=1), model)
    assert not heard
