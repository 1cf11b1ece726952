"""Sampling: tokens drawn from a local model so that a run can be repeated, with the probability of each as it is drawn.

A request brings its own random numbers, one a token. What it gets does not depend on the requests beside it, or on when
they came.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

CHUNK = 256
"""The most requests that are generated for at once."""


@dataclass(frozen=True)
class Request:
    """What is to be generated."""

    key: tuple[Any, ...]
    """Names the request within a run: sample, epoch, and how many came before it."""
    prompt_ids: Sequence[int]
    max_tokens: int
    temperature: float = 1.0
    """0 takes the likeliest token."""
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()
    seed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Generated:
    """What came of a request."""

    ids: list[int] = field(default_factory=list)
    """Token ids, with the one that ends the reply where there is one."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probability of each at the request's temperature, before top-p and top-k: TRL computes it so as well."""


class Engine(Protocol):
    """Something that generates for many requests at once."""

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        """One answer for each request, in their order."""


def uniforms(request: Request) -> "np.ndarray[Any, Any]":
    """The request's random numbers in [0, 1), one a token."""
    told = repr((*request.seed, *request.key)).encode()
    return np.random.default_rng(np.frombuffer(sha256(told).digest(), dtype=np.uint64)).random(request.max_tokens)


class LocalEngine:
    """A transformers model in this process."""

    def __init__(self, model: Any, tokenizer: "PreTrainedTokenizerBase", ends: Sequence[int]) -> None:  # noqa: ANN401
        """Take a model.

        Args:
            model: A causal language model. It may be in training: its mode is put back after each call.
            tokenizer: Its tokenizer, with a padding token.
            ends: Ids of the tokens that end a reply.
        """
        self.model = (
            model.get_base_model() if hasattr(model, "get_base_model") else model
        )  # an adapter is in its layers
        self.tokenizer = tokenizer
        self.ends = list(ends)

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        """Generate in chunks of requests of similar length, so that little is padding."""
        from transformers import GenerationConfig

        order = sorted(range(len(requests)), key=lambda at: (len(requests[at].prompt_ids), requests[at].key))
        made: dict[int, Generated] = {}
        training, usual = self.model.training, self.model.generation_config
        self.model.eval()
        # What a model comes with, such as a penalty for repetition, would be sampled with and not trained with.
        self.model.generation_config = GenerationConfig()
        try:
            for start in range(0, len(order), CHUNK):
                some = order[start : start + CHUNK]
                made |= dict(zip(some, self._generate([requests[at] for at in some]), strict=True))
        finally:
            self.model.train(training)
            self.model.generation_config = usual
        return [made[at] for at in range(len(requests))]

    def _generate(self, requests: Sequence[Request]) -> list[Generated]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

        longest = max(len(request.prompt_ids) for request in requests)
        pad = self.tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (longest - len(row.prompt_ids)) + list(row.prompt_ids) for row in requests])
        mask = torch.tensor([[0] * (longest - len(row.prompt_ids)) + [1] * len(row.prompt_ids) for row in requests])
        device = self.model.device
        draw = Draw(requests, device)
        stops = [Stops(requests, self.tokenizer, longest)] if any(row.stop for row in requests) else []
        with torch.no_grad():
            out = self.model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                generation_config=GenerationConfig(
                    do_sample=False,  # `Draw` leaves one token to choose
                    max_new_tokens=max(row.max_tokens for row in requests),
                    eos_token_id=self.ends,
                    pad_token_id=pad,
                ),
                logits_processor=LogitsProcessorList([draw]),
                stopping_criteria=StoppingCriteriaList(stops),
            )
        drawn = torch.stack(draw.logprobs, 1).tolist() if draw.logprobs else [[] for _ in requests]
        return [
            self._cut(request, row, told)
            for request, row, told in zip(requests, out[:, longest:].tolist(), drawn, strict=True)
        ]

    def _cut(self, request: Request, ids: list[int], logprobs: list[float]) -> Generated:
        """Leave out what comes after the end: padding, or more tokens than this request asked for."""
        length = next((at + 1 for at, token in enumerate(ids) if token in self.ends), len(ids))
        length = min(length, request.max_tokens)
        if request.stop:
            length = next((at for at in range(1, length) if stopped(self.tokenizer, ids[:at], request.stop)), length)
        return Generated(ids[:length], logprobs[:length])


def stopped(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int], stop: Sequence[str]) -> bool:
    """Whether a reply has just come to a text that ends it. What was read before it does not count."""
    last = max(4 * len(text) for text in stop) + 4  # a letter is four bytes at most, and a token one at least
    text = str(tokenizer.decode(list(ids[-last:])))
    return any(end in text for end in stop)


class Stops:
    """Ends each row at its own stop texts, as a stopping criterion of transformers.

    transformers' own takes one list for all rows, and finds a text also where it began in the prompt.
    """

    def __init__(self, requests: Sequence[Request], tokenizer: "PreTrainedTokenizerBase", start: int) -> None:
        self.stops = [request.stop for request in requests]
        self.tokenizer = tokenizer
        self.start = start

    def __call__(self, input_ids: "torch.Tensor", scores: object, **_: object) -> "torch.Tensor":
        """Tell which rows are done."""
        replies = input_ids[:, self.start :].tolist()
        done = [
            bool(stop) and stopped(self.tokenizer, ids, stop) for ids, stop in zip(replies, self.stops, strict=True)
        ]
        return input_ids.new_tensor(done, dtype=input_ids.bool().dtype)


class Draw:
    """Draws each row's next token with the row's own random number, as a logits processor of transformers."""

    def __init__(self, requests: Sequence[Request], device: "torch.device | str") -> None:
        import torch

        most = max(request.max_tokens for request in requests)
        padded = np.full((len(requests), most), 0.5)
        for row, request in enumerate(requests):
            padded[row, : request.max_tokens] = uniforms(request)
        # In double precision: the sum over a large vocabulary must end at one. Apple's devices have none.
        self.wide = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self.random = torch.from_numpy(padded).to(device=device, dtype=self.wide)
        self.temperature = torch.tensor([request.temperature or 1.0 for request in requests], device=device)[:, None]
        self.greedy = torch.tensor([request.temperature == 0 for request in requests], device=device)
        self.narrowed: dict[tuple[int, float], list[int]] = {}
        for row, request in enumerate(requests):
            if request.top_p < 1 or request.top_k > 0:
                self.narrowed.setdefault((request.top_k, request.top_p), []).append(row)
        self.logprobs: list[torch.Tensor] = []

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """Leave each row's drawn token alone possible."""
        import torch

        logprobs = torch.log_softmax(scores.float() / self.temperature, dim=-1)
        allowed = self._narrow(logprobs) if self.narrowed else logprobs
        step = len(self.logprobs)
        cumulated = torch.cumsum(allowed.to(self.wide).exp(), dim=-1)
        threshold = self.random[:, step : step + 1] * cumulated[:, -1:]
        token = torch.searchsorted(cumulated, threshold, right=True).clamp_(max=scores.shape[-1] - 1)[:, 0]
        token = torch.where(self.greedy, logprobs.argmax(dim=-1), token)
        self.logprobs.append(logprobs.gather(1, token[:, None])[:, 0])
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)

    def _narrow(self, logprobs: "torch.Tensor") -> "torch.Tensor":
        """Take away what top-k and top-p exclude, with transformers' own rules."""
        from transformers import TopKLogitsWarper, TopPLogitsWarper

        kept = logprobs.clone()
        none: Any = None  # neither looks at the ids
        for (top_k, top_p), rows in self.narrowed.items():
            some = kept[rows]
            if top_k > 0:
                some = TopKLogitsWarper(top_k)(none, some)
            if top_p < 1:
                some = TopPLogitsWarper(top_p)(none, some)
            kept[rows] = some
        return kept


class ServerEngine:
    """A vLLM server that TRL keeps in step with the model in training."""

    def __init__(self, client: Any) -> None:  # noqa: ANN401
        """Take TRL's `VLLMClient`."""
        self.client = client

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        """Ask once for all requests that are to be sampled in the same way."""
        alike: dict[tuple[Any, ...], list[int]] = {}
        for at, row in enumerate(requests):
            alike.setdefault((row.max_tokens, row.temperature, row.top_p, row.top_k, row.stop), []).append(at)
        made: dict[int, Generated] = {}
        for (tokens, temperature, top_p, top_k, stop), some in alike.items():
            answer = self.client.generate(
                prompts=[list(requests[at].prompt_ids) for at in some],
                max_tokens=tokens,
                temperature=temperature,
                top_p=top_p,
                top_k=top_k,
                logprobs=0,
                generation_kwargs={"stop": list(stop), "include_stop_str_in_output": True} if stop else None,
            )
            logprobs = [[token[0] for token in row] for row in answer["logprobs"]]
            for at, ids, told in zip(some, answer["completion_ids"], logprobs, strict=True):
                made[at] = Generated(list(ids), told)
        return [made[at] for at in range(len(requests))]
