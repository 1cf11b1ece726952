"""Hidden tests of a program: the share of answers whose program returns what is expected on inputs that nobody saw."""

import json

from truthgym.datasets.code_repair import RepairQuestion, find_program
from truthgym.scorers.graders.grader import Grade, Grader, GraderInput
from truthgym.scorers.graders.python import NoResultError, ProgramOptions, call_function


def hidden_tests(options: ProgramOptions) -> Grader:
    """Make the grader of `truthgym/code_repair`: 1 if the answer's function passes every hidden test, else 0.

    The function is called on all inputs in one new process, after the answer. That process gets the inputs alone: what
    it returns is compared here with what is expected, as JSON, so that true is not 1 and 1 is not 1.0. A test also
    fails if the function changes its arguments. All that can go wrong in the answer counts as 0: no program, one that
    does not end in time, ends the process or writes the result itself. An answer without a program leaves the function
    as it was.
    """

    async def function(given: GraderInput) -> Grade:
        task = RepairQuestion.model_validate(dict(given.item))
        program = find_program(given.completion, task.function)
        if program is None:
            return Grade(0, explanation=f"The answer has no Python program with a function {task.function}.")
        try:
            calls = [test.arguments for test in task.tests]
            replies = await call_function("The answer's program", program, task.function, calls, options)
        except NoResultError as error:
            return Grade(0, explanation=str(error))
        passed = [_same(reply, [t.expected, t.arguments]) for reply, t in zip(replies, task.tests, strict=True)]
        return Grade(float(all(passed)), explanation=f"{sum(passed)} of {len(passed)} hidden tests passed.")

    return Grader("hidden_tests", function, sandbox=not options.trusted)


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
