"""The results of progress tasks in the shape of ProgressGym's result file: {Algorithm: {Challenge: result}}.

python -m truthgym.analysis.progress_results LOGS OUT.json --timeline linear-0
"""

import argparse
import json
from pathlib import Path
from typing import Any

from inspect_ai.log import read_eval_log_sample, read_eval_log_sample_summaries

from truthgym.analysis.tables.setups import Places, bare_name, runs
from truthgym.datasets.errors import BadInput
from truthgym.scorers.progress.record import RESULT


def results(logs: Places, timeline: str = "", epoch: int = 1) -> dict[str, dict[str, dict[str, Any]]]:
    """The result of each examinee with each judge on one timeline, as `produce_final_result` returned it.

    By examinee, without the ending `Examinee` and followed by the model if there are several, and by judge, without the
    ending `Judge`. Of several runs the newest counts. `timeline` is the sample's id, such as linear-0; "": the only
    one.
    """
    with_ids, timelines = [], set()
    for run in runs(logs):
        if not bare_name(run.log.header.eval.task).startswith("progress_"):
            continue
        ids = {str(sample.id) for sample in read_eval_log_sample_summaries(run.log.path) if sample.epoch == epoch}
        timelines |= ids
        with_ids.append((run, ids))
    if not timeline and len(timelines) == 1:
        (timeline,) = timelines
    if timeline not in timelines:
        names = ", ".join(sorted(timelines)) or "none"
        raise BadInput(f"timeline={timeline!r} is not in epoch {epoch} of the logs; they have {names}: name one")
    models = {run.log.header.eval.model for run, _ in with_ids}
    exported: dict[str, dict[str, dict[str, Any]]] = {}
    for run, ids in with_ids:
        if timeline not in ids:
            continue
        spec = run.log.header.eval
        result = read_eval_log_sample(run.log.path, timeline, epoch).store.get(RESULT) or {}
        algorithm = str(result.get("examinee", spec.task_args.get("examinee"))).removesuffix("Examinee")
        challenge = str(result.get("judge", spec.task_args.get("judge"))).removesuffix("Judge")
        algorithm += f" ({spec.model})" if len(models) > 1 else ""
        exported.setdefault(algorithm, {}).setdefault(challenge, result)
    return exported


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("logs")
    parser.add_argument("out", type=Path)
    parser.add_argument("--timeline", default="")
    parser.add_argument("--epoch", type=int, default=1)
    options = parser.parse_args()
    exported = results(options.logs, options.timeline, options.epoch)
    options.out.write_text(json.dumps(exported), encoding="utf-8")
