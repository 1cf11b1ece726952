"""How fast are questions made, beside reading as many from a .jsonl file with Inspect's own loader?

python -m studies.speed.urns
"""

import json
import statistics
import tempfile
import time
from pathlib import Path

from inspect_ai.dataset import FieldSpec, json_dataset

from truthgym.datasets.urns import urns

N = 10_000

if __name__ == "__main__":
    made, read = [], []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "urns.jsonl"
        rows = [item.model_dump(include={"id", "input", "target", "metadata"}) for item in urns(n=N)]
        path.write_text("".join(json.dumps({**row.pop("metadata"), **row}) + "\n" for row in rows))
        fields = FieldSpec(id="id", input="input", target="target", metadata=["event", "posterior"])
        for _ in range(5):
            began = time.process_time()
            urns(n=N)
            made.append(time.process_time() - began)
            began = time.process_time()
            json_dataset(str(path), fields)
            read.append(time.process_time() - began)
    seconds, ratio = statistics.median(made), statistics.median(made) / statistics.median(read)
    print(f"{N} questions: {seconds:.1f} CPU s to make; making / reading = {ratio:.2f}")
