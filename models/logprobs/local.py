"""Log-probabilities of given tokens by teacher forcing: a forward pass of a transformers model, without sampling.

Rows that begin with the same tokens share the keys and values of that prefix, so 32 replies to one conversation cost
about as much as reading it once. Rows are padded on the right, where causal attention does not see the padding. Memory
is bounded by `MAX_CACHE` and `MAX_LOGITS`, whatever the number of rows and the length of a reply. A recurrent layer's
state cannot be shared or continued: such models read each row whole, and the logits of one reply are in memory at once.
"""

import re
from collections.abc import Iterator, Sequence
from copy import deepcopy
from itertools import pairwise, takewhile
from math import inf
from threading import Lock
from typing import Any

from anyio import to_thread
from inspect_ai.model import ChatMessage

MAX_POSITIONS = 2**13
"""Tokens of one forward pass, with the shared prefix counted once for each row. More are slower on a CPU."""
MAX_CACHE = 2**29
"""Bytes that their keys and values may take: 0.5 GB. SmolLM2 (135 million parameters, float32) has 11,650 tokens in it,
a model with 8 billion in bfloat16 about 4,000."""
MAX_LOGITS = 2**25
"""Logits that are computed at a time: 128 MB in float32."""
Scored = list[tuple[str, float]] | str
"""The text and log-probability of each token of a reply, or the reason why there are none."""
PRIVATE_USE = 0xE000
"""The first character that Unicode leaves to private use: it stands for a message in a template."""
EMPTY = "The reply is empty."
TOO_LONG_FOR_SERVER = "The conversation with the reply is longer than the server's context."
Row = tuple[Sequence[int], Sequence[int]]
"""The tokens of a prompt, at least one, and those of a reply, at least one."""
FORWARD = Lock()
"""One forward pass at a time, so that concurrent samples do not add up their memory."""


async def score_local(api: Any, messages: list[ChatMessage], replies: Sequence[str]) -> tuple[list[Scored], int]:  # noqa: ANN401
    """The log-probabilities of replies in a conversation, by a model of Inspect's provider `hf`."""
    prompt = _prompt(api, messages)
    options = {"add_special_tokens": False, "split_special_tokens": True, "return_offsets_mapping": True}
    encoded = [api.tokenizer(reply, **options) for reply in replies]
    ids = [encoding["input_ids"] for encoding in encoded]
    positions = getattr(api.model.config.get_text_config(), "max_position_embeddings", None) or inf
    fits = [bool(tokens) and len(prompt) + len(tokens) <= positions for tokens in ids]
    rows = [(prompt, tokens) for tokens, fit in zip(ids, fits, strict=True) if fit]

    def run() -> list[list[float]]:
        with FORWARD:
            return token_logprobs(api.model, rows)

    logprobs = iter(await to_thread.run_sync(run) if rows else [])
    scored: list[Scored] = []
    for reply, one, encoding, fit in zip(replies, ids, encoded, fits, strict=True):
        if fit:
            scored.append(list(zip(pieces(reply, encoding["offset_mapping"]), next(logprobs), strict=True)))
        else:
            scored.append(too_long(len(prompt) + len(one), int(positions)) if one else EMPTY)
    return scored, len(prompt) + sum(map(len, ids))


def _prompt(api: Any, messages: list[ChatMessage]) -> list[int]:  # noqa: ANN401
    """The tokens of a conversation. Contents that name a special token are encoded apart from the template."""
    special = [str(token) for token in api.tokenizer.added_tokens_decoder.values() if token.special]
    contents: dict[str, str] = {}
    for number, message in enumerate(messages):
        if any(token in message.text for token in special):
            mark = chr(PRIVATE_USE + number)
            contents[mark] = message.text
            messages = [*messages[:number], message.model_copy(update={"content": mark}), *messages[number + 1 :]]
    templated = api.use_chat_template is not False and any((api.chat_template, api.tokenizer.chat_template))
    options = {"add_special_tokens": not templated, **api.tokenizer_call_args}
    chat = api.hf_chat(messages, [])
    ids: list[int] = []
    for part in re.split(f"([{''.join(contents)}])", chat) if contents else [chat]:
        text = contents.get(part, part)
        ids += api.tokenizer(text, **options, split_special_tokens=part in contents)["input_ids"] if text else []
        options["add_special_tokens"] = False
    return ids


def pieces(text: str, offsets: Sequence[tuple[int, int]]) -> list[str]:
    """The text of each token. Joined they give the text; of tokens that share a character, the last one has it."""
    ends = [min(end, begin) for (_, end), (begin, _) in pairwise(offsets)]
    cuts = [0, *ends, len(text)]
    return [text[begin:end] for begin, end in pairwise(cuts)]


def too_long(tokens: int, positions: int) -> str:
    """Why a reply that does not fit into the model's context has no log-probability."""
    return f"The conversation with the reply has {tokens} tokens, and the model's context {positions}."


def token_logprobs(network: Any, rows: Sequence[Row]) -> list[list[float]]:  # noqa: ANN401
    """The log-probability of each token of each reply, in nats, given its prompt and the reply's earlier tokens."""
    import torch

    results: list[list[float]] = [[] for _ in rows]
    if not rows:
        return results
    # The last token of a prompt is left to the rows: it predicts the first one of the reply.
    columns = zip(*(prompt[:-1] for prompt, _ in rows), strict=False)
    shared = sum(1 for _ in takewhile(lambda column: len({*column}) == 1, columns)) if len(rows) > 1 else 0
    with torch.inference_mode():
        cache = None
        if shared:
            prefix = torch.tensor([rows[0][0][:shared]], device=network.device)
            output = network(input_ids=prefix, use_cache=True, logits_to_keep=1)
            cache = getattr(output, "past_key_values", None)
            if not _reusable(cache):
                shared, cache = 0, None
        for batch in length_batches(rows, most_positions(network)):
            for index, logprobs in zip(batch, _forward(network, [rows[i] for i in batch], shared, cache), strict=True):
                results[index] = logprobs
    return results


def _reusable(cache: Any) -> bool:  # noqa: ANN401
    """Whether a cache can be repeated for rows and continued by several tokens: not that of a recurrent layer."""
    return all(hasattr(layer, "batch_repeat_interleave") for layer in getattr(cache, "layers", [None]))


def most_positions(network: Any) -> int:  # noqa: ANN401
    """Tokens that fit into a forward pass, by `MAX_POSITIONS` and `MAX_CACHE`."""
    config = network.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    if heads is None:  # recurrent layers alone
        return MAX_POSITIONS
    size = getattr(config, "head_dim", None) or config.hidden_size // heads
    numbers = 2 * config.num_hidden_layers * (getattr(config, "num_key_value_heads", None) or heads) * size
    return int(min(MAX_POSITIONS, MAX_CACHE // (numbers * network.dtype.itemsize)))


def length_batches(rows: Sequence[Row], most: int) -> Iterator[list[int]]:
    """Indices of rows, at most so many tokens a batch, sorted by length so that there is little padding."""
    batch: list[int] = []
    lengths = [len(prompt) + len(reply) for prompt, reply in rows]
    for index in sorted(range(len(rows)), key=lengths.__getitem__):
        if batch and (len(batch) + 1) * lengths[index] > most:
            yield batch
            batch = []
        batch.append(index)
    yield batch


def _forward(network: Any, rows: Sequence[Row], shared: int, prefix: Any) -> Iterator[list[float]]:  # noqa: ANN401
    """The replies' log-probabilities of one batch, whose first `shared` tokens are in the cache `prefix`."""
    import torch
    from transformers.cache_utils import DynamicLayer

    texts = [[*prompt[shared:], *reply] for prompt, reply in rows]
    width = max(map(len, texts)) - 1  # the last token predicts nothing that is asked for
    ids = torch.zeros((len(rows), width + 1), dtype=torch.long)
    for row, text in enumerate(texts):
        ids[row, : len(text)] = torch.tensor(text)
    ids = ids.to(network.device)
    cache = None
    if prefix is not None:
        cache = deepcopy(prefix)
        for layer in cache.layers:
            if type(layer) is DynamicLayer:  # a view, which the next pass copies once
                layer.keys, layer.values = (part.expand(len(rows), -1, -1, -1) for part in (layer.keys, layer.values))
            else:
                layer.batch_repeat_interleave(len(rows))
    first = min(len(prompt) for prompt, _ in rows) - shared - 1  # no earlier column predicts a token of a reply
    step = max(1, MAX_LOGITS // (len(rows) * network.config.get_text_config().vocab_size))
    logprobs = torch.empty((len(rows), width - first))
    begin, end = 0, min(width, first + step)
    while begin < width:
        keep = end - max(begin, first)
        use_cache = cache is not None or end < width
        output = network(input_ids=ids[:, begin:end], past_key_values=cache, use_cache=use_cache, logits_to_keep=keep)
        logits = output.logits.float()
        targets = ids[:, end - keep + 1 : end + 1, None]
        values = logits.gather(2, targets).squeeze(2) - logits.logsumexp(dim=2)
        logprobs[:, end - keep - first : end - first] = values.cpu()
        cache = getattr(output, "past_key_values", None) if use_cache else None
        if end < width and not _reusable(cache):  # read in one piece, and one row at a time
            if len(rows) > 1:
                for one in rows:
                    yield from _forward(network, [one], 0, None)
                return
            begin, end, cache = 0, width, None
            continue
        begin, end = end, min(width, end + step)
    for row, (prompt, reply) in enumerate(rows):
        at = len(prompt) - shared - 1 - first
        yield logprobs[row, at : at + len(reply)].tolist()
