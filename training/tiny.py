"""A tiny language model that trains on a laptop, to try out the way from logs to a trained model, and for tests."""

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from truthgym.datasets.errors import validate_call
from truthgym.training.files import check_new_folder, save_model

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

TEMPLATE = Path(__file__).parent / "tiny_model" / "tiny.jinja"
PAD, END = "<|pad|>", "<|end|>"
ROLES = ("<|system|>", "<|user|>", "<|assistant|>", "<|tool|>")
VOCABULARY = 1536
"""Most tokens. Merges may span words, so a sentence of `urns` is a few tokens; other texts are mostly bytes."""
CONTEXT = 4096
STEPS = 1400
"""Steps of the warm start: about a minute and a half of one core."""
NUMBER_STD = 0.1
"""Initial standard deviation of the embeddings of numbers; that of other tokens is 0.02. See `_init_numbers`."""
CARD = Path(__file__).parent / "tiny_model" / "tiny.md"


@validate_call
def tiny(
    out: Path | str,
    *,
    seed: Annotated[int, Field(ge=0)] = 0,
    steps: Annotated[int, Field(ge=0)] = STEPS,
    overwrite: bool = False,
    hidden: Annotated[int, Field(ge=32, multiple_of=32)] = 128,
    layers: Annotated[int, Field(ge=1)] = 2,
) -> Path:
    """Make a tiny causal language model with its tokenizer, its chat template and a card.

    It answers the questions of `urns` in the requested format, in six tokens, with beliefs that are noisy and too close
    to one half.

    Args:
        out: The model's folder.
        seed: Seed of the weights and of the warm start's data. The same seed gives the same model on one machine.
        steps: Steps of the warm start. 0 leaves the weights random, which takes a second.
        overwrite: Whether a tiny model in `out` may be replaced.
        hidden: Width of the model, a multiple of 32. The defaults give about half a million parameters.
        layers: Number of layers.

    Returns:
        The folder.

    Raises:
        BadInput: The folder exists and `overwrite` is not set, or it is not a tiny model, or a number is out of range.
    """
    folder = Path(out)
    check_new_folder(folder, ["tiny"], "tiny model", overwrite)
    tokenizer = _tokenizer()
    model = _model(tokenizer, seed, hidden, layers)
    if steps:
        from truthgym.training.tiny_model.warm_start import warm_start

        warm_start(model, tokenizer, steps, seed)
    state = f"a warm start of {steps:,} steps" if steps else "random weights"
    facts = {"seed": seed, "steps": steps, "hidden": hidden, "layers": layers, "state": state}
    card = CARD.read_text(encoding="utf-8").format(
        name=folder.name, folder=folder, parameters=model.num_parameters(), **facts
    )
    save_model(folder, model, tokenizer, card)
    return folder


def _tokenizer() -> "PreTrainedTokenizerFast":
    """Train the tokenizer, which is the same for every seed."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    from truthgym.training.tiny_model.warm_start import conversations

    bpe = Tokenizer(models.BPE())
    digits = pre_tokenizers.Split(Regex(r"\d{1,2}"), "isolated")
    letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    bpe.pre_tokenizer = pre_tokenizers.Sequence([digits, letters])
    bpe.decoder = decoders.ByteLevel()
    texts = (message["content"] for messages in conversations(400) for message in messages)
    numbers = (f"{number:02d}" for number in range(100) for _ in range(1000))  # often enough to merge each pair
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        min_frequency=2,
        special_tokens=[PAD, END, *ROLES],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(chain(texts, numbers), trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe,
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
        _init_numbers(model, tokenizer)
    # Sample from the unchanged distribution, as reinforcement learning requires.
    model.generation_config = GenerationConfig(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, **ends)
    return model


def _init_numbers(model: "Qwen3ForCausalLM", tokenizer: "PreTrainedTokenizerFast") -> None:
    """Initialise numbers that are near each other with similar embeddings, so that what is learned of 37 helps with 38.

    A number's embedding is a sum of random directions, weighted by cosines of the number with increasing frequency and
    decreasing size.
    """
    import torch

    frequencies = torch.arange(8)
    weights = torch.cos(torch.pi * (torch.arange(100)[:, None] + 0.5) * frequencies / 100) / (1 + frequencies)
    weights /= weights.square().sum(dim=1).mean().sqrt()
    embeddings = model.get_input_embeddings().weight
    numbers = weights @ torch.randn(len(frequencies), embeddings.shape[1]) * NUMBER_STD
    with torch.no_grad():
        for written in ([f"{number:02d}" for number in range(100)], [str(number) for number in range(10)]):
            embeddings[tokenizer.convert_tokens_to_ids(written)] = numbers[: len(written)]
