#!/usr/bin/env bash
# From a search for a rubric to a model that was trained on it, and back by lineage. Needs no key:
#   bash examples/rubric_to_model.sh [NEW FOLDER]
# The judges and the writer of rubrics are simulated, and the policy is a tiny model with random weights: it shows that
# the parts fit together, and learns nothing.
set -euo pipefail
folder=${1:-$(mktemp -d)/rubric}
mkdir -p "$folder" && cd "$folder"
port=$(python -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=http://127.0.0.1:$port

truthgym rubric search --out runs/first --generations 2 --population 3 --mutations 3 --parents 2 --votes 1
truthgym rubric export runs/first --out rm.json
truthgym rubric verify rm.json runs/first
truthgym rubric record rm.json --target dev

truthgym serve --scorer rubric -S rubric=rm.json --port "$port" --log requests.jsonl &
server=$!
trap 'kill $server 2>/dev/null || true' EXIT
until curl -sf "$url/readyz" >/dev/null; do kill -0 $server && sleep 0.5; done
curl -sf "$url/score" -H 'Content-Type: application/json' \
  -d '{"prompt": "Will it rain?", "response": "I assume that the forecast is right, and it may be wrong: 60 %."}' && echo

truthgym tiny --out tiny --steps 0 --hidden 32
truthgym train grpo --model_name_or_path tiny --task truthgym/urns --task_args '{n: 40, paradigms: brier}' --reward "$url" \
  --output_dir trained --max_steps 2 --num_generations 4 --per_device_train_batch_size 8 --gradient_accumulation_steps 1 \
  --max_completion_length 12 --report_to none --validation_steps 0
kill $server && wait $server

model=$(ls -d trained/tiny-grpo-*)
truthgym lineage show "$model" .
truthgym lineage verify .
