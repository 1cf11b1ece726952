"""A tiny language model that trains on a laptop: for trying the way from logs to a trained model, and for tests.

truthgym tiny --out trained/tiny
inspect eval truthgym/urns --model hf/trained/tiny --max-tokens 16
"""

import shutil
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from truthgym.evallog.errors import bad_input

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

TEMPLATE = Path(__file__).parent / "tiny_model" / "tiny.jinja"
PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
VOCABULARY = 1536
"""Tokens at most. Merges go across words, so a sentence of `urns` is a few tokens; other texts are mostly bytes."""
CONTEXT = 4096
"""Tokens."""
STEPS = 1400
"""Of the warm start: about a minute and a half of one core."""
ALIKE = 0.1
"""Standard deviation of the embeddings of numbers at the start; that of other tokens is 0.02. See `_order_numbers`."""
MARK = "kind: tiny"
"""Stands in the card of what was made here, which may be overwritten."""
CARD = """---
library_name: transformers
pipeline_tag: text-generation
tags: [truthgym, toy]
truthgym:
  {mark}
  seed: {seed}
  steps: {steps}
  hidden: {hidden}
  layers: {layers}
  parameters: {parameters}
---

# {name}

A toy with {parameters:,} parameters, made by `truthgym tiny --seed {seed} --steps {steps}`. It was trained on nothing
but the questions of `truthgym/urns` ({state}), with answers that are noisy on purpose. It is there to try out how logs
become a dataset and a better model, within minutes and without a GPU. It knows no language: what it says of anything
else is noise.

```bash
inspect eval truthgym/urns --model hf/{folder} --max-tokens 16
```
"""


def tiny(
    out: Path | str,
    *,
    seed: int = 0,
    steps: int = STEPS,
    overwrite: bool = False,
    hidden: int = 128,
    layers: int = 2,
) -> Path:
    """Make a folder with a tiny causal language model, its tokenizer, its chat template and a card.

    It answers the questions of `urns` in form, in six tokens, and believes too little and too noisily.

    Args:
        out: The folder.
        seed: Of the weights and of what the warm start learns from. The same seed gives the same model on one machine.
        steps: Of the warm start. 0 leaves the weights at random, which takes a second.
        overwrite: Whether a tiny model that stands in `out` may be replaced.
        hidden: Width of the model, a multiple of 32. With the defaults it has some half a million parameters.
        layers: Its layers.

    Returns:
        The folder.

    Raises:
        BadInput: The folder is there and `overwrite` is not set, or it holds something else, or a number cannot be
            used.
    """
    folder = Path(out)
    _check_place(folder, overwrite)
    for name, value, least in (("steps", steps, 0), ("seed", seed, 0), ("layers", layers, 1), ("hidden", hidden, 32)):
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise bad_input(f"tiny: {name}={value!r} cannot be used; give a whole number, at least {least}")
    if hidden % 32:
        raise bad_input(f"tiny: hidden={hidden} cannot be used; give a multiple of 32, such as 128")
    tokenizer = _tokenizer()
    model = _model(tokenizer, seed, hidden, layers)
    if steps:
        from truthgym.training.tiny_model.warm_start import warm_start

        warm_start(model, tokenizer, steps, seed)
    state = f"a warm start of {steps:,} steps" if steps else "with no step of training so far"
    facts = {"seed": seed, "steps": steps, "hidden": hidden, "layers": layers, "state": state, "mark": MARK}
    card = CARD.format(name=folder.name, folder=folder, parameters=model.num_parameters(), **facts)
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    model.save_pretrained(partial)
    tokenizer.save_pretrained(partial)
    (partial / "README.md").write_text(card, encoding="utf-8")
    if folder.is_dir():
        shutil.rmtree(folder)
    partial.rename(folder)
    return folder


def _check_place(folder: Path, overwrite: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not overwrite:
        raise bad_input(f"{folder} is there already; give another folder with --out, or say --overwrite to replace it")
    card = folder / "README.md"
    if not card.is_file() or MARK not in card.read_text(encoding="utf-8"):
        raise bad_input(
            f"{folder} holds no tiny model, and nothing else is overwritten; give another folder with --out"
        )


def _tokenizer() -> "PreTrainedTokenizerFast":
    """Byte-level BPE. Numbers are cut every two digits, so that 37 is one token; all else may merge, also over spaces.

    Whatever its seed, a model has the same tokenizer.
    """
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from truthgym.training.tiny_model.text import conversations

    pieces = Tokenizer(models.BPE())
    digits = pre_tokenizers.Split(Regex(r"\d{1,2}"), "isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    pieces.pre_tokenizer = pre_tokenizers.Sequence([digits, letters])
    pieces.decoder = decoders.ByteLevel()
    told = (message["content"] for messages in conversations(400) for message in messages)
    numbers = (f"{number:02d}" for number in range(100) for _ in range(1000))  # often, so that each pair is merged
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=[PAD, END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    pieces.train_from_iterator(chain(told, numbers), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=pieces,
        eos_token=END,
        pad_token=PAD,
        additional_special_tokens=list(ROLES),
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE.read_text(encoding="utf-8")
    return tokenizer


def _model(tokenizer: "PreTrainedTokenizerFast", seed: int, hidden: int, layers: int) -> "Qwen3ForCausalLM":
    import torch
    from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

    ends = {"bos_token_id": None, "eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=hidden,
        intermediate_size=3 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=True,
        **ends,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Qwen3ForCausalLM(config)
        _order_numbers(model, tokenizer)
    # Plain sampling: what is said comes as often as the model gives it probability. Reinforcement learning needs that.
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **ends)
    return model


def _order_numbers(model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast") -> None:
    """Let numbers that are near each other begin alike: what is learned of 37, as read or said, then holds of 38.

    A number's embedding is a sum of random directions, weighted by cosines of the number with growing frequency and
    falling size.
    """
    import torch

    waves = torch.arange(8)
    turns = torch.cos(torch.pi * (torch.arange(100)[:, None] + 0.5) * waves / 100) / (1 + waves)
    turns /= turns.square().sum(dim=1).mean().sqrt()
    embeddings = model.get_input_embeddings().weight
    numbers = turns @ torch.randn(len(waves), embeddings.shape[1]) * ALIKE
    with torch.no_grad():
        for written in ([f"{number:02d}" for number in range(100)], [str(number) for number in range(10)]):
            embeddings[tokenizer.convert_tokens_to_ids(written)] = numbers[: len(written)]
