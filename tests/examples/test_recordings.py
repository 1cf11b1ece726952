"""A reward model of recordings, on noise of two colours of which the darker one is preferred."""

from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from examples import recordings
from truthgym.datasets.errors import BadInput


def record(file: Path, dark: bool, seed: int, kind: type = np.int16) -> str:
    noise = np.random.default_rng(seed).standard_normal(4000)
    sound = np.cumsum(noise) - np.linspace(0, noise.sum(), 4000) if dark else noise
    sound = sound / np.abs(sound).max() / 2
    wavfile.write(file, 8000, (sound * 32767).astype(np.int16) if kind is np.int16 else sound.astype(kind))
    return file.name


def test_what_people_prefer_ranks_the_takes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["file_a,file_b,preferred"]
    for i in range(12):
        names = [record(tmp_path / f"{i}{side}.wav", side == "a", 2 * i + (side == "b")) for side in "ab"]
        lines.append(",".join([*names, "a"] if i % 2 else [*names[::-1], "b"]))
    (tmp_path / "pairs.csv").write_text("\n".join(lines))
    takes = [tmp_path / f"take{i}.wav" for i in range(3)]
    for i, take in enumerate(takes):
        record(take, i == 1, 100 + i, np.float32 if i else np.int16)
    recordings.main([str(tmp_path / "pairs.csv"), "--takes", *map(str, takes)])
    said = capsys.readouterr().out
    assert "Held-out pairs in order: 12 of 12 [0.74, 1.00]" in said
    assert f"1. {takes[1]}  +0.00" in said


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("file_a,file_b,preferred\nx.wav,y.wav,c", "line 2.*a or b"),
        ("file_a,file_b,preferred\nx.wav,y.wav,a", "1 pairs; give two"),
        ("file_a,file_b,preferred\nx.wav,y.wav,a\nx.wav,y.wav,a", "x.wav cannot be read.*give a WAV file"),
    ],
)
def test_bad_tables_are_one_error(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pairs.csv").write_text(text)
    with pytest.raises(BadInput, match=message):
        recordings.main([str(tmp_path / "pairs.csv")])
