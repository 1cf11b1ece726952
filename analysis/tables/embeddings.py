"""Texts as vectors, to find those that nearly repeat one another."""

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from truthgym.datasets.errors import BadInput

if TYPE_CHECKING:
    from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], "NDArray[np.float32]"]
"""From texts to vectors of length 1: texts x dimensions."""
NGRAM = 5
"""Bytes of a character n-gram."""
DIMENSIONS = 2048
"""Of the hashed n-grams."""
MULTIPLIER = 0x9E3779B97F4A7C15
"""Of the rolling hash: 2^64 divided by the golden ratio (Knuth 1998, 6.4)."""
REQUEST = 64
"""Texts in a request to an endpoint."""


def embedder_named(name: str, url: str = "") -> Embed:
    """The embedder behind the argument `embedder`."""
    if url and name == "none":
        raise BadInput(f"embedder_url={url!r} needs the name of the model there; add embedder=MODEL")
    if name == "none":
        return hashed_ngrams
    return _endpoint(name, url) if url else _sentence_transformer(name)


def hashed_ngrams(texts: Sequence[str]) -> "NDArray[np.float32]":
    """Character n-grams of each text, hashed with a sign: texts x `DIMENSIONS`, each of length 1 (0 for no text).

    Counts enter as log(1 + count). The sign keeps the expected product of texts without a common n-gram at 0
    (Weinberger et al. 2009). Case and white space do not count.
    """
    vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
    for row, text in zip(vectors, texts, strict=True):
        letters = np.frombuffer(" ".join(text.lower().split()).encode("utf-8", "replace"), dtype=np.uint8)
        letters = np.pad(letters, (0, max(0, NGRAM - letters.size))) if letters.size else letters
        if not letters.size:
            continue
        windows = np.lib.stride_tricks.sliding_window_view(letters, NGRAM).astype(np.uint64)
        code = np.zeros(len(windows), dtype=np.uint64)
        for column in range(NGRAM):
            code = (code + windows[:, column] + np.uint64(1)) * np.uint64(MULTIPLIER)
            code ^= code >> np.uint64(29)
        grams, count = np.unique(code, return_counts=True)
        sign = np.where(grams >> np.uint64(63), 1.0, -1.0)
        row += np.bincount((grams % np.uint64(DIMENSIONS)).astype(np.intp), np.log1p(count) * sign, DIMENSIONS)
        row /= max(float(np.linalg.norm(row)), 1e-12)
    return vectors


def near_duplicates(
    vectors: "NDArray[np.float32]", threshold: float
) -> tuple["NDArray[np.intp]", "NDArray[np.float32]"]:
    """Mark each row that is close to an earlier one. Of a group of repeats the first is kept."""
    kept: list[int] = []
    nearest_index = np.full(len(vectors), -1, dtype=np.intp)
    similarity = np.full(len(vectors), np.nan, dtype=np.float32)
    matrix = np.empty_like(vectors)
    for i, vector in enumerate(vectors):
        if kept:
            products = matrix[: len(kept)] @ vector
            nearest = int(products.argmax())
            similarity[i] = products[nearest]
            if similarity[i] >= threshold:
                nearest_index[i] = kept[nearest]
                continue
        matrix[len(kept)] = vector
        kept.append(i)
    return nearest_index, similarity


def _sentence_transformer(name: str) -> Embed:
    try:
        from sentence_transformers import SentenceTransformer  # type: ignore[import-not-found]
    except ImportError:
        raise BadInput(
            f'embedder={name!r} needs sentence-transformers; pip install -e ".[embeddings]", or give the URL of an '
            "endpoint that serves it, or embedder=none"
        ) from None
    model, _, revision = name.partition("@")
    try:
        transformer = SentenceTransformer(model, revision=revision or None)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise BadInput(
            f"embedder={name!r} cannot be loaded ({reason}); give a model of sentence-transformers"
        ) from None
    return lambda texts: np.asarray(
        transformer.encode(list(texts), normalize_embeddings=True, show_progress_bar=False), dtype=np.float32
    )


def _endpoint(name: str, url: str) -> Embed:
    from openai import OpenAI, OpenAIError

    client = OpenAI(base_url=url, api_key=os.environ.get("OPENAI_API_KEY", "none"))

    def embed(texts: Sequence[str]) -> "NDArray[np.float32]":
        rows: list[list[float]] = []
        for start in range(0, len(texts), REQUEST):
            # An empty text is refused by most endpoints.
            batch = [text or " " for text in texts[start : start + REQUEST]]
            try:
                reply = client.embeddings.create(model=name, input=batch, encoding_format="float")
            except OpenAIError as error:
                raise BadInput(f"embedder_url={url!r} gives no embeddings of {name!r} ({error}); check both") from None
            rows += [item.embedding for item in sorted(reply.data, key=lambda item: item.index)]
        vectors = np.array(rows, dtype=np.float32)
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True).astype(np.float32)
        unit: NDArray[np.float32] = np.divide(vectors, np.maximum(lengths, np.float32(1e-12)), dtype=np.float32)
        return unit

    return embed
