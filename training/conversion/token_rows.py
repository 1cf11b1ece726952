"""Rows of tokens for trainers other than TRL's: ids, masks, log-probabilities and advantages of each reply.

`verl` has the fields of `AgentLoopOutput` in volcengine/verl (verl/experimental/agent_loop/agent_loop.py at 6c923f3b),
`prime-rl` those of `TrainingSample` in PrimeIntellect-ai/prime-rl (src/prime_rl/transport/types.py at e86de6cb), and
`tinker` those of the `Datum` in thinking-machines-lab/tinker-cookbook (tinker_cookbook/rl/data_processing.py at
11885f56).
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from truthgym.evallog.errors import bad_input
from truthgym.scorers.statistics.direction import Best
from truthgym.solvers import chat_template

Row = dict[str, Any]
BATCH = 32
"""Replies that are scored at a time."""


class Tokens(NamedTuple):
    """A reply in its conversation."""

    prompt: list[int]
    reply: list[int]
    """With the token that ends it."""
    logprobs: list[float]
    """Natural logarithm, one for each token of the reply."""


def token_rows(rows: Sequence[tuple[str, Row]], kind: str, name: str, best: Best | None) -> Iterator[tuple[str, Row]]:
    """Replace the columns `prompt` and `completion` by tokens in the shape of another trainer."""
    kept = [(split, msgspec.json.decode(msgspec.json.encode(row))) for split, row in rows]
    if not kept:
        return
    rewards = [row["score"] if best == "highest" else -row["score"] for _, row in kept]
    advantages = _advantages([row for _, row in kept], rewards)
    tokenizer, model = _load(name)
    shape = {"verl": _verl, "prime-rl": _prime_rl, "tinker": _tinker}[kind]
    for start in range(0, len(kept), BATCH):
        part = kept[start : start + BATCH]
        scored = _score(tokenizer, model, [row for _, row in part])
        for at, ((split, row), tokens) in enumerate(zip(part, scored, strict=True), start):
            turns = len(row.pop("prompt")) + len(row.pop("completion"))
            row.pop("chat_template_kwargs", None)
            yield split, {**shape(tokens, rewards[at], advantages[at], turns), **row}


def _advantages(rows: Sequence[Row], rewards: Sequence[float]) -> list[float]:
    groups: dict[tuple[Any, ...], dict[str, float]] = defaultdict(dict)
    keys = [tuple(row[name] for name in ("task", "sample_id", "model", "solver")) for row in rows]
    for key, row, reward in zip(keys, rows, rewards, strict=True):
        groups[key][f"{row['eval_id']} {row['sample_uuid']} {row['epoch']}"] = reward  # a trajectory counts once
    means = {key: sum(group.values()) / len(group) for key, group in groups.items()}
    advantages = [reward - means[key] for key, reward in zip(keys, rewards, strict=True)]
    if not any(advantages):
        raise bad_input(
            f"All {len(groups)} questions have one trajectory or equal scores, so every advantage is 0 and nothing can "
            "be learnt; run the eval with --epochs 4, or choose another --score"
        )
    return advantages


def _load(name: str) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    try:
        tokenizer, model = AutoTokenizer.from_pretrained(name), AutoModelForCausalLM.from_pretrained(name).eval()
    except (OSError, ValueError) as error:
        place = "" if Path(name).is_dir() else ", which is no folder here,"
        raise bad_input(
            f"--model {name}{place} cannot be loaded: {str(error).strip().splitlines()[0]} Give the folder or the name "
            "on the Hub of the model that is to be trained"
        ) from None
    if isinstance(tokenizer.chat_template, str):
        tokenizer.chat_template = chat_template.fit(tokenizer, tokenizer.chat_template)
    return tokenizer, model


def _score(tokenizer: Any, model: Any, rows: Sequence[Row]) -> list[Tokens]:  # noqa: ANN401
    from truthgym.models.logprobs.local import token_logprobs

    pairs = [_encode(tokenizer, row) for row in rows]
    return [Tokens(*pair, scores) for pair, scores in zip(pairs, token_logprobs(model, pairs), strict=True)]


def _encode(tokenizer: Any, row: Row) -> tuple[list[int], list[int]]:  # noqa: ANN401
    """The ids of the prompt and of the reply up to its end token; what the template writes after it is not a reply."""
    options = {"tools": row.get("tools"), "tokenize": False, **(row.get("chat_template_kwargs") or {})}
    kept = {name: value for name, value in options.items() if name != "tokenize"}
    if refusal := chat_template.problem(tokenizer, [*row["prompt"], *row["completion"]], **kept):
        raise bad_input(
            f"{row['log']}: sample {row['sample_id']}, epoch {row['epoch']}: the chat template of "
            f"{tokenizer.name_or_path} {refusal}; {chat_template.REMEDY}"
        )
    before = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True, **options)
    whole = tokenizer.apply_chat_template([*row["prompt"], *row["completion"]], **options)
    if whole.startswith(before):
        text = whole[len(before) :]
    else:  # the template writes an earlier turn differently once there is a later one
        text = str(row["completion"][0]["content"]) + tokenizer.eos_token
    prompt, reply = (tokenizer(part, add_special_tokens=False)["input_ids"] for part in (before, text))
    if tokenizer.eos_token_id in reply:
        reply = reply[: reply.index(tokenizer.eos_token_id) + 1]
    if not prompt or not reply:
        raise bad_input(
            f"{row['log']}: sample {row['sample_id']}, epoch {row['epoch']}: its prompt or reply has no tokens; give "
            "another --model"
        )
    return prompt, reply


def _verl(tokens: Tokens, reward: float, advantage: float, turns: int) -> Row:
    return {
        "prompt_ids": tokens.prompt,
        "response_ids": tokens.reply,
        "response_mask": [1] * len(tokens.reply),
        "response_logprobs": tokens.logprobs,
        "reward_score": reward,
        "num_turns": turns,
        "advantage": advantage,
    }


def _prime_rl(tokens: Tokens, reward: float, advantage: float, turns: int) -> Row:
    return {
        "prompt_ids": tokens.prompt,
        "prompt_mask": [False] * len(tokens.prompt),
        "completion_ids": tokens.reply,
        "completion_mask": [True] * len(tokens.reply),
        "completion_logprobs": tokens.logprobs,
        "advantage": advantage,
        "reward": reward,
    }


def _tinker(tokens: Tokens, reward: float, advantage: float, turns: int) -> Row:
    """All lists are aligned with `target_tokens`, the sequence without its first token."""
    ids, before = [*tokens.prompt, *tokens.reply], [0.0] * (len(tokens.prompt) - 1)
    length = len(tokens.reply)
    return {
        "model_input": ids[:-1],
        "target_tokens": ids[1:],
        "logprobs": [*before, *tokens.logprobs],
        "advantages": [*before, *[advantage] * length],
        "mask": [*before, *[1.0] * length],
        "reward": reward,
    }
