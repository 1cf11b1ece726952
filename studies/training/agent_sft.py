"""A language model before and after SFT on the trajectories of an agent with tools, on chains of other worlds.

    python -m studies.training.agent_sft trained/agent_sft --page docs/agents.md

An oracle follows chains of one and two facts in worlds of the train split; `truthgym convert` makes a row of each of
its calls and answers, and SFT trains SmolLM2 on them. Both models then follow the same chains of the test split, in
worlds that no row has. SmolLM2's own chat template has no tools, so both get one that has. Steps that are complete are
not repeated.
"""

import argparse
import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from inspect_ai import eval
from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_samples

from studies.study import interval_cell, write_texts
from truthgym.analysis.tables.markdown import markdown
from truthgym.scorers.statistics.interval import mean_estimate
from truthgym.tasks.agents import fact_chains
from truthgym.training.conversion.options import ConversionConfig, Selection
from truthgym.training.convert import convert
from truthgym.training.smollm2 import smollm2
from truthgym.training.train import sft

HOPS = (1, 2)
TEMPLATE = """{%- if messages[0].role == 'system' %}{% set system = messages[0].content | trim %}{% endif -%}
{{- '<|im_start|>system\\n' + (system or '') -}}
{%- if tools %}{{- '\\n\\nTools:' -}}
{%- for tool in tools %}{% set called = tool.function if tool.function is mapping else tool -%}
{{- '\\n' + called.name + '(' + called.parameters.properties | join(', ') + '): ' + called.description -}}
{%- endfor -%}
{{- '\\nCall one so: <tool_call>{"name": "NAME", "arguments": {...}}</tool_call>' -}}
{%- endif -%}
{{- '<|im_end|>\\n' -}}
{%- for message in messages if message.role != 'system' -%}
{{- '<|im_start|>' + message.role + '\\n' + (message.content or '') | trim -}}
{%- for call in message.tool_calls or [] %}{% set called = call.function if call.function is mapping else call -%}
{%- set name = called.name if called.name is string else called.function -%}
{{- '<tool_call>{"name": "' + name + '", "arguments": ' + called.arguments | tojson + '}</tool_call>' -}}
{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' -}}{% endif -%}
"""
"""Calls are written as Inspect's provider `hf` reads them. TRL has them as `function.name`, Inspect as `function`."""
MEASURES = {
    "called": "replies with a call",
    "read": "line `Answer:` read",
    "hops": "right hops",
    "chain": "right chains",
    "answer": "right answers",
    "process": "process",
}
Measures = dict[str, dict[str, float]]
"""The figures of `MEASURES` by question."""


def base_model(out: Path) -> Path:
    if not out.is_dir():
        smollm2(out)
    (out / "chat_template.jinja").write_text(TEMPLATE, encoding="utf-8")
    return out


def trained_model(base: Path, work: Path, chains: int, steps: int, rate: float, seed: int) -> Path:
    """The model after SFT on the calls and answers of an oracle."""
    logs, rows = work / "train-logs", work / "train-rows"
    if not rows.is_dir():
        task = fact_chains(n=chains, seed=1 + seed, split="train", hops=HOPS)
        eval(task, model="reference/oracle", log_dir=str(logs), display="none")
        convert([logs], ConversionConfig("sft"), rows, Selection(score="fact_chain/chain", threshold=1.0))
    return sft({
        "model_name_or_path": str(base), "dataset_name": str(rows), "output_dir": str(work), "max_steps": steps,
        "learning_rate": rate, "per_device_train_batch_size": 1, "gradient_accumulation_steps": 4, "seed": seed,
        "logging_steps": 1, "use_cpu": True, "save_strategy": "no", "disable_tqdm": True,
    })  # fmt: skip


def measure(model: Path, out: Path, chains: int) -> Measures:
    """What a model does on chains of the test split. An answer that cannot be read counts as wrong."""
    if not list_eval_logs(str(out)):
        eval(
            fact_chains(n=chains, seed=0, split="test", hops=HOPS, paradigms=["fact_chain", "agent_answer"]),
            model=f"hf/{model}", model_args={"device": "cpu", "do_sample": False},
            max_tokens=64, message_limit=14, max_connections=1, log_dir=str(out), log_realtime=False, display="none",
        )  # fmt: skip
    (log,) = list_eval_logs(str(out))
    if (status := read_eval_log(log, header_only=True).status) != "success":
        raise SystemExit(f"The run of {model.name} has the status {status!r}; remove {out} and repeat the command")
    measures: Measures = {}
    for sample in read_eval_log_samples(log, all_samples_required=False):
        chain: Any = (sample.scores or {})["fact_chain"]
        agent: Any = (sample.scores or {})["agent_answer"].value
        replies = [message for message in sample.messages if message.role == "assistant"]
        measures[str(sample.id)] = {
            "called": float(np.mean([bool(reply.tool_calls) for reply in replies])) if replies else 0.0,
            "read": float(np.isfinite(agent["answer"])),
            "hops": chain.value["hops"] / chain.metadata["hops"],
            "chain": float(np.nan_to_num(chain.value["chain"])),
            "answer": float(np.nan_to_num(agent["answer"])),
            "process": float(np.nan_to_num(agent["process"])),
        }
    return measures


def table(before: Measures, after: Measures) -> str:
    """Each figure before and after, and its difference, paired by chain."""
    common, rows = sorted(before.keys() & after.keys()), []
    for name, title in MEASURES.items():
        old, new = (np.array([measures[question][name] for question in common]) for measures in (before, after))
        change = mean_estimate(new - old, None, (-1, 1))
        ends = (interval_cell(mean_estimate(values, None, (0, 1)), 2) for values in (old, new))
        rows.append([title, *ends, interval_cell(change, 2), f"{change.mde:.2f}", str(change.n)])
    return markdown(["share of", "before", "after", "change", "smallest detectable", "chains"], rows)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", type=Path)
    parser.add_argument("--page", type=Path, help="write the table between the page's comments `agent sft` and `end`")
    parser.add_argument("--chains", type=int, default=40, help="of the oracle, half with one hop and half with two")
    parser.add_argument("--steps", type=int, default=40, help="gradient steps, with four rows each")
    parser.add_argument("--rate", type=float, default=1e-4, help="learning rate")
    parser.add_argument("--held-out", type=int, default=24, help="chains of the test split")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    base, record = base_model(args.work / "smollm2"), args.work / "trained.json"
    before = measure(base, args.work / "before", args.held_out)
    if not record.is_file():
        folder = trained_model(base, args.work, args.chains, args.steps, args.rate, args.seed)
        record.write_text(json.dumps(str(folder)), encoding="utf-8")
    trained = Path(json.loads(record.read_text(encoding="utf-8")))
    shutil.copyfile(base / "chat_template.jinja", trained / "chat_template.jinja")
    after = measure(trained, args.work / "after", args.held_out)
    text = table(before, after)
    print(text)
    if args.page:
        write_texts(args.page, {"agent sft": text})


if __name__ == "__main__":
    main()
