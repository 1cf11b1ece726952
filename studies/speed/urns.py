"""How fast are questions made, beside reading as many from a .jsonl file with Inspect's own loader?

python -m studies.speed.urns
"""

import json
import tempfile
from pathlib import Path

from inspect_ai.dataset import FieldSpec, json_dataset

from studies.speed.timing import in_turn, ratio
from truthgym.datasets.urns import urns

N = 10_000

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "urns.jsonl"
        rows = [item.model_dump(include={"id", "input", "target", "metadata"}) for item in urns(n=N)]
        path.write_text("".join(json.dumps({**row.pop("metadata"), **row}) + "\n" for row in rows))
        fields = FieldSpec(id="id", input="input", target="target", metadata=["event", "posterior"])
        ways = {"making": lambda: urns(n=N), "reading": lambda: json_dataset(str(path), fields)}
        spent = in_turn(ways, runs=5)
    print(f"{N} questions: making / reading = {ratio(spent['making'], spent['reading'])}")
