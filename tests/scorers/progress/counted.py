"""A model provider for the tests: the simulated assistant as a real model, whose calls Inspect logs and caches."""

import os
import signal
from pathlib import Path
from typing import Any

from inspect_ai.model import ChatMessage, ModelAPI, ModelOutput, modelapi

from truthgym.models.reference import ReferenceAPI


class CountedAPI(ReferenceAPI):
    """Writes a line into the file COUNTED for each call, and kills the process at the call after KILLED_AFTER."""

    simulated = False
    calls = 0

    async def generate(self, input: list[ChatMessage], *others: Any, **named: Any) -> ModelOutput:
        if CountedAPI.calls == int(os.environ.get("KILLED_AFTER", "-1")):
            os.kill(os.getpid(), signal.SIGKILL)
        CountedAPI.calls += 1
        if path := os.environ.get("COUNTED"):
            with Path(path).open("a") as file:
                file.write("called\n")
        return await super().generate(input, *others, **named)


@modelapi(name="counted")
def counted() -> type[ModelAPI]:
    return CountedAPI
