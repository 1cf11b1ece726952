r"""In which form, and at which temperature, does a model state a probability that can be read?

    python -m studies.speed.question_forms hf/smollm2:135m --model-path trained/smollm2
    SERVER_BASE_URL=http://127.0.0.1:8080/v1 SERVER_API_KEY=none \
        python -m studies.speed.question_forms openai-api/server/smollm2

Asks questions of urns and of forecasting with their evidence, in each form and at each temperature, in one turn. Prints
for each the share of replies in which `read_belief` reads a probability, and how many of these are exactly 0 or 1; with
--replies FILE it writes every reply.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from inspect_ai.dataset import Sample
from inspect_ai.model import GenerateConfig, Model, ModelOutput, ResponseSchema, get_model
from inspect_ai.util import JSONSchema

from studies.speed.timing import arguments
from truthgym.datasets.forecasting import forecasting
from truthgym.datasets.question import Question
from truthgym.datasets.urns import urns
from truthgym.scorers.beliefs.elicitation import PROBE
from truthgym.scorers.beliefs.parsing import read_belief
from truthgym.solvers.direct import HOW_LIKELY, STATE_BELIEF, with_evidence
from truthgym.solvers.local_model import generate
from truthgym.solvers.trajectory import cut_off, user_message
from truthgym.training.files import markdown_table

TEMPERATURES = (1.0, 0.7, 0.2)
SCHEMA = ResponseSchema(
    name="belief",
    json_schema=JSONSchema(
        type="object", properties={"probability": JSONSchema(type="integer")}, required=["probability"]
    ),
)


@dataclass(frozen=True)
class Form:
    """A form of the question."""

    text: str
    decimal: bool = False
    """Whether it asks for a decimal."""
    schema: ResponseSchema | None = None


IN_JSON = HOW_LIKELY + '\n\nReply with one JSON object: {{"probability": <whole number from 0 to 100>}}'
FORMS = {
    r"`\finalBeliefProb{p}` (the answer)": Form(STATE_BELIEF, decimal=True),
    "a whole percent alone (the probe)": Form(PROBE),
    "JSON with a response schema": Form(IN_JSON, schema=SCHEMA),
    "a sentence with a percentage": Form(HOW_LIKELY + "\n\nReply in one sentence that states a percentage."),
    "the probe, then `Probability in percent:`": Form(f"{PROBE}\n\nProbability in percent:"),
}


def questions(n: int) -> list[Sample]:
    return [*urns(n=n - n // 2), *forecasting(n=n // 2)]


def texts(form: Form, asked: list[Sample]) -> Iterator[str]:
    for item in asked:
        question = item.metadata_as(Question)
        request = form.text.format(proposition=question.proposition)
        yield f"{with_evidence(str(item.input), question)}\n\n{request}"


async def replies(model: Model, form: Form, asked: list[Sample], config: GenerateConfig) -> list[ModelOutput]:
    return await asyncio.gather(*[generate(model, [user_message(text, 1)], config) for text in texts(form, asked)])


async def main(model: Model, n: int, max_tokens: int, file: Path | None) -> str:
    asked, records = questions(n), []
    shares: dict[tuple[str, float], str] = {}
    for (name, form), temperature in product(FORMS.items(), TEMPERATURES):
        config = GenerateConfig(max_tokens=max_tokens, temperature=temperature, response_schema=form.schema)
        written = await replies(model, form, asked, config)
        beliefs = [read_belief(reply.completion, form.decimal, cut_off(reply) is not None) for reply in written]
        read = sum(belief is not None for belief in beliefs)
        sure = sum(belief in (0, 1) for belief in beliefs)
        shares[name, temperature] = f"{read / n:.0%} ({sure} of {read})"
        records += [
            {"form": name, "temperature": temperature, "id": item.id, "reply": reply.completion, "belief": belief}
            for item, reply, belief in zip(asked, written, beliefs, strict=True)
        ]
        print(f"{name}, temperature {temperature}: {read} of {n} read, {sure} of them 0 or 1", flush=True)
        if file:
            file.write_text("".join(f"{json.dumps(record)}\n" for record in records), encoding="utf-8")
    header = ["form of the question", *(f"temperature {t:g}" for t in TEMPERATURES)]
    return markdown_table(header, [[name, *(shares[name, t] for t in TEMPERATURES)] for name in FORMS])


if __name__ == "__main__":
    parser = arguments(__doc__)
    parser.add_argument("model")
    parser.add_argument("--model-path", help="folder of an hf/ model")
    parser.add_argument("--n", type=int, default=20, help="questions")
    parser.add_argument("--max-tokens", type=int, default=64)
    parser.add_argument("--replies", type=Path, help="file for the replies")
    args = parser.parse_args()
    where = {"model_path": args.model_path} if args.model_path else {}
    asked_model = get_model(args.model, config=GenerateConfig(max_connections=args.n), **where)
    print(asyncio.run(main(asked_model, args.n, args.max_tokens, args.replies)))
