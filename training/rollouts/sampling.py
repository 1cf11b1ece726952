"""Sampling from the model in training, so that a run can be repeated, with each token's log-probability as drawn.

Each request brings its own random numbers, one per token: what it gets does not depend on the other requests in its
batch, or on when they arrived. `Batcher` collects the requests of concurrent samples for an engine: `LocalEngine`, the
model in this process, or `VLLMEngine`, to which TRL sends the weights.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.to_thread
import numpy as np

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedTokenizerBase

MAX_BATCH = 256
"""Most requests for which tokens are generated at once."""
IDLE_SECONDS = 1.0
"""Seconds without a new request after which waiting requests are served, even if running samples may send more."""
SERVER_CALLS = 64
"""Calls of a server at a time: as many connections as TRL's client keeps open."""


@dataclass(frozen=True)
class Request:
    """One reply to generate."""

    key: tuple[Any, ...]
    """Identifies the request within a run: sample, epoch, and the number of requests before it."""
    prompt_ids: Sequence[int]
    max_tokens: int
    temperature: float = 1.0
    """0 takes the most likely token."""
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()
    seed: tuple[int, ...] = ()


@dataclass(frozen=True)
class Generated:
    """The reply to a request."""

    ids: list[int] = field(default_factory=list)
    """Token ids, including the end token if the reply has one."""
    logprobs: list[float] = field(default_factory=list)
    """Log-probability of each at the request's temperature, before top-p and top-k, as TRL computes it."""


class Engine(Protocol):
    """Generates for many requests at once."""

    @property
    def end_ids(self) -> Sequence[int]:
        """Ids of the tokens that end a reply."""

    @property
    def context_length(self) -> int | None:
        """Tokens of prompt and reply together that the model supports, if known."""

    @property
    def concurrent(self) -> bool:
        """Whether each request is sent at once by itself, as to a server, which batches by itself."""

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        """One reply per request, in order."""


Generate = Callable[[list[list[int]], Request], tuple[Sequence[Sequence[int]], Sequence[Any]]]
"""TRL's way to vLLM: from prompts to token ids and, for each token, a list that begins with its log-probability."""


def uniforms(request: Request) -> "np.ndarray[Any, Any]":
    """The request's random numbers in [0, 1), one per token."""
    identity = repr((*request.seed, *request.key)).encode()
    return np.random.default_rng(np.frombuffer(sha256(identity).digest(), dtype=np.uint64)).random(request.max_tokens)


@dataclass(eq=False)
class _Waiting:
    """A request that waits for its reply."""

    request: Request
    ready: anyio.Event = field(default_factory=anyio.Event)
    outcome: Generated | Exception | None = None
    in_batch: bool = False
    """Whether its batch is being generated."""


class Batcher:
    """Serves a batch when every running sample waits for a reply, so that its members never depend on timing."""

    def __init__(self, engine: Engine, samples: int) -> None:
        self.engine = engine
        self.samples = samples
        self.batches = 0
        self._waiting: list[_Waiting] = []
        self._serving = anyio.Lock()
        self._server_calls = anyio.CapacityLimiter(SERVER_CALLS)

    async def __call__(self, request: Request) -> Generated:
        """Generate for one request. An error of the engine is raised for each request of the batch."""
        if self.engine.concurrent:
            return (await anyio.to_thread.run_sync(self.engine, [request], limiter=self._server_calls))[0]
        waiting = _Waiting(request)
        self._waiting.append(waiting)
        try:
            await self._serve_if_all_wait()
            while not waiting.ready.is_set():
                state = self.batches, len(self._waiting)
                # Requests in a batch wait without a timeout: thousands of them would otherwise wake up every second.
                with anyio.move_on_after(None if waiting.in_batch else IDLE_SECONDS):
                    await waiting.ready.wait()
                idle = not waiting.ready.is_set() and state == (self.batches, len(self._waiting))
                if idle and self._waiting and self._waiting[0] is waiting and not self._serving.locked():
                    await self._serve()  # the other samples are busy with something slow, such as a tool
        finally:
            if waiting in self._waiting:  # its sample was cancelled, for instance by a time limit
                self._waiting.remove(waiting)
        if isinstance(waiting.outcome, Exception):
            raise waiting.outcome
        assert waiting.outcome is not None
        return waiting.outcome

    async def sample_ended(self) -> None:
        """Count one running sample less: all that are left may now be waiting."""
        self.samples -= 1
        await self._serve_if_all_wait()

    async def _serve_if_all_wait(self) -> None:
        if not self._waiting or len(self._waiting) < self.samples:
            return
        samples = {waiting.request.key[:-1] for waiting in self._waiting}  # one sample may send several requests
        if len(samples) >= self.samples:
            await self._serve()

    async def _serve(self) -> None:
        """Serve the waiting requests in the order of their keys."""
        with anyio.CancelScope(shield=True):  # a cancelled sample must not take the replies of others with it
            async with self._serving:
                batch, self._waiting = sorted(self._waiting, key=lambda waiting: waiting.request.key), []
                if not batch:
                    return
                self.batches += 1
                for waiting in batch:
                    waiting.in_batch = True
                outcomes: list[Generated | Exception]
                try:
                    outcomes = [*await anyio.to_thread.run_sync(self.engine, [waiting.request for waiting in batch])]
                except Exception as error:  # every sample of the batch must get it, whatever it is
                    outcomes = [error] * len(batch)
                for waiting, outcome in zip(batch, outcomes, strict=True):
                    waiting.outcome = outcome
                    waiting.ready.set()


class LocalEngine:
    """A transformers model in this process."""

    concurrent = False

    def __init__(
        self,
        model: Any,  # noqa: ANN401
        tokenizer: "PreTrainedTokenizerBase",
        end_ids: Sequence[int],
        context_length: int | None = None,
        autocast: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        # The layers of a PEFT model contain the adapter.
        self.model = model.get_base_model() if hasattr(model, "get_base_model") else model
        self.tokenizer = tokenizer
        self.end_ids = list(end_ids)
        self.context_length = context_length
        self.autocast = autocast

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        """Generate in batches of requests of similar length, to keep padding short."""
        from transformers import GenerationConfig

        order = sorted(range(len(requests)), key=lambda at: (len(requests[at].prompt_ids), requests[at].key))
        replies: dict[int, Generated] = {}
        training, generation_config = self.model.training, self.model.generation_config
        self.model.eval()
        # The model's own settings, such as a repetition penalty, would apply to sampling but not to training.
        self.model.generation_config = GenerationConfig()
        try:
            for start in range(0, len(order), MAX_BATCH):
                batch = order[start : start + MAX_BATCH]
                replies |= dict(zip(batch, self._generate([requests[at] for at in batch]), strict=True))
        finally:
            self.model.train(training)
            self.model.generation_config = generation_config
        return [replies[at] for at in range(len(requests))]

    def _generate(self, requests: Sequence[Request]) -> list[Generated]:
        import torch
        from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

        longest = max(len(request.prompt_ids) for request in requests)
        pad = self.tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (longest - len(row.prompt_ids)) + list(row.prompt_ids) for row in requests])
        mask = torch.tensor([[0] * (longest - len(row.prompt_ids)) + [1] * len(row.prompt_ids) for row in requests])
        device = self.model.device
        sampler = RowSampler(requests, device)
        stops = [RowStops(requests, self.tokenizer, longest)] if any(row.stop for row in requests) else []
        with torch.no_grad(), self.autocast():
            out = self.model.generate(
                input_ids=ids.to(device),
                attention_mask=mask.to(device),
                generation_config=GenerationConfig(
                    do_sample=False,  # `RowSampler` leaves a single token possible
                    max_new_tokens=max(row.max_tokens for row in requests),
                    eos_token_id=self.end_ids,
                    pad_token_id=pad,
                ),
                logits_processor=LogitsProcessorList([sampler]),
                stopping_criteria=StoppingCriteriaList(stops),
            )
        logprobs = torch.stack(sampler.logprobs, 1).tolist() if sampler.logprobs else [[] for _ in requests]
        rows = zip(requests, out[:, longest:].tolist(), logprobs, strict=True)
        return [self._truncate(*row) for row in rows]

    def _truncate(self, request: Request, ids: list[int], logprobs: list[float]) -> Generated:
        """Remove what follows the end: padding, or more tokens than this request asked for."""
        length = next((at + 1 for at, token in enumerate(ids) if token in self.end_ids), len(ids))
        length = min(length, request.max_tokens)
        if request.stop:
            length = next((at for at in range(1, length) if has_stop(self.tokenizer, ids[:at], request.stop)), length)
        return Generated(ids[:length], logprobs[:length])


def has_stop(tokenizer: "PreTrainedTokenizerBase", ids: Sequence[int], stop: Sequence[str]) -> bool:
    """Whether the last tokens of a reply contain a stop text. The prompt does not count."""
    last = max(4 * len(text) for text in stop) + 4  # a character has at most four bytes, a token at least one
    text = str(tokenizer.decode(list(ids[-last:])))
    return any(end in text for end in stop)


class RowStops:
    """A stopping criterion with stop texts per row, which the prompt's text does not meet, unlike transformers' own."""

    def __init__(self, requests: Sequence[Request], tokenizer: "PreTrainedTokenizerBase", start: int) -> None:
        self.stops = [request.stop for request in requests]
        self.tokenizer = tokenizer
        self.start = start

    def __call__(self, input_ids: "torch.Tensor", scores: object, **_: object) -> "torch.Tensor":
        """Which rows are done."""
        replies = zip(input_ids[:, self.start :].tolist(), self.stops, strict=True)
        stopped = [bool(stop) and has_stop(self.tokenizer, ids, stop) for ids, stop in replies]
        return input_ids.new_tensor(stopped, dtype=input_ids.bool().dtype)


class RowSampler:
    """A logits processor of transformers that draws each row's next token with the row's own random number."""

    def __init__(self, requests: Sequence[Request], device: "torch.device | str") -> None:
        import torch

        padded = np.full((len(requests), max(request.max_tokens for request in requests)), 0.5)
        for row, request in enumerate(requests):
            padded[row, : request.max_tokens] = uniforms(request)
        # Double precision, so that the sum over a large vocabulary ends at one. Apple's devices do not have it.
        self.dtype = torch.float32 if torch.device(device).type == "mps" else torch.float64
        self.random = torch.from_numpy(padded).to(device=device, dtype=self.dtype)
        self.temperature = torch.tensor([request.temperature or 1.0 for request in requests], device=device)[:, None]
        self.greedy = torch.tensor([request.temperature == 0 for request in requests], device=device)
        self.filtered: dict[tuple[int, float], list[int]] = {}
        """Rows by their top-k and top-p."""
        for row, request in enumerate(requests):
            if request.top_p < 1 or request.top_k > 0:
                self.filtered.setdefault((request.top_k, request.top_p), []).append(row)
        self.logprobs: list[torch.Tensor] = []

    def __call__(self, input_ids: "torch.Tensor", scores: "torch.Tensor") -> "torch.Tensor":
        """Leave only each row's drawn token possible."""
        import torch

        logprobs = torch.log_softmax(scores.float() / self.temperature, dim=-1)
        allowed = self._filter(logprobs) if self.filtered else logprobs
        step = len(self.logprobs)
        cumulative = torch.cumsum(allowed.to(self.dtype).exp(), dim=-1)
        threshold = self.random[:, step : step + 1] * cumulative[:, -1:]
        token = torch.searchsorted(cumulative, threshold, right=True).clamp_(max=scores.shape[-1] - 1)[:, 0]
        token = torch.where(self.greedy, logprobs.argmax(dim=-1), token)
        self.logprobs.append(logprobs.gather(1, token[:, None])[:, 0])
        return torch.full_like(scores, -torch.inf).scatter_(1, token[:, None], 0.0)

    def _filter(self, logprobs: "torch.Tensor") -> "torch.Tensor":
        """Remove the tokens that top-k and top-p exclude, by transformers' own rules."""
        from transformers import TopKLogitsWarper, TopPLogitsWarper

        allowed = logprobs.clone()
        no_ids: Any = None  # neither rule reads the ids
        for (top_k, top_p), rows in self.filtered.items():
            some = allowed[rows]
            if top_k > 0:
                some = TopKLogitsWarper(top_k)(no_ids, some)
            if top_p < 1:
                some = TopPLogitsWarper(top_p)(no_ids, some)
            allowed[rows] = some
        return allowed


class VLLMEngine:
    """vLLM with the weights of the model in training: a server, or an engine in this process."""

    def __init__(
        self, generate: Generate, end_ids: Sequence[int], context_length: int | None = None, concurrent: bool = False
    ) -> None:
        self.generate = generate
        self.end_ids = list(end_ids)
        self.context_length = context_length
        self.concurrent = concurrent

    def __call__(self, requests: Sequence[Request]) -> list[Generated]:
        """Send one call for all requests with the same sampling settings."""
        by_settings: dict[tuple[Any, ...], list[int]] = {}
        for at, row in enumerate(requests):
            by_settings.setdefault((row.max_tokens, row.temperature, row.top_p, row.top_k, row.stop), []).append(at)
        replies: dict[int, Generated] = {}
        for places in by_settings.values():
            ids, logprobs = self.generate([list(requests[at].prompt_ids) for at in places], requests[places[0]])
            for at, tokens, values in zip(places, ids, logprobs, strict=True):
                replies[at] = Generated(list(tokens), [token[0] for token in values])
        return [replies[at] for at in range(len(requests))]


@contextmanager
def open_engine(trainer: Any) -> Iterator[Engine]:  # noqa: ANN401
    """The engine that generates with the trainer's weights: the model itself, or vLLM, to which they are sent."""
    end_ids, arguments = trainer.eos_token_ids, trainer.args
    context_length = getattr(trainer.model.config.get_text_config(), "max_position_embeddings", None)
    if arguments.use_vllm:
        if trainer.state.global_step != trainer._last_loaded_step:
            trainer.vllm_generation.sync_weights()
            trainer._last_loaded_step = trainer.state.global_step
        if arguments.vllm_mode == "server":
            client = _client(trainer)
            context_length = client.get_server_info()["model_config"]["max_model_len"]
            yield VLLMEngine(_from_server(client), end_ids, context_length, concurrent=True)
        else:
            limits = (context_length, arguments.vllm_max_model_length)
            context_length = min((limit for limit in limits if limit), default=None)
            yield VLLMEngine(_from_this_process(trainer.vllm_generation), end_ids, context_length)
        return
    from trl.models.utils import unwrap_model_for_generation

    with unwrap_model_for_generation(
        trainer.model_wrapped,
        trainer.accelerator,
        gather_deepspeed3_params=arguments.ds3_gather_for_generation,
        gradient_checkpointing_kwargs=arguments.gradient_checkpointing_kwargs,
    ) as model:
        yield LocalEngine(model, trainer._tokenizer, end_ids, context_length, trainer.accelerator.autocast)


def _stop(request: Request) -> dict[str, Any] | None:
    """The stop texts as vLLM takes them."""
    return {"stop": list(request.stop), "include_stop_str_in_output": True} if request.stop else None


def _from_server(client: Any) -> Generate:  # noqa: ANN401
    """Generate with TRL's `VLLMClient`."""

    def generate(prompts: list[list[int]], request: Request) -> tuple[list[list[int]], list[Any]]:
        answer = client.generate(
            prompts=prompts,
            max_tokens=request.max_tokens,
            temperature=request.temperature,
            top_p=request.top_p,
            top_k=request.top_k,
            logprobs=0,
            generation_kwargs=_stop(request),
        )
        return answer["completion_ids"], answer["logprobs"]

    return generate


def _from_this_process(generation: Any) -> Generate:  # noqa: ANN401
    """Generate with the engine of TRL's `VLLMGeneration`, which reads its settings from its attributes."""

    def generate(prompts: list[list[int]], request: Request) -> tuple[list[list[int]], list[Any]]:
        generation.max_completion_length = request.max_tokens
        generation.temperature, generation.top_p, generation.top_k = request.temperature, request.top_p, request.top_k
        generation.generation_kwargs = _stop(request) or {}
        generation.logprobs = 0  # of the sampled token only; RLOOTrainer does not ask for them
        _, ids, logprobs, _ = generation.generate(prompts, None, num_generations=1)
        return ids, logprobs

    return generate


def _client(trainer: Any) -> Any:  # noqa: ANN401
    """The client of the vLLM server. TRL gives one to the main process, which also sends the weights with it."""
    if trainer.accelerator.is_main_process:
        return trainer.vllm_generation.vllm_client
    if not hasattr(trainer, "rollout_client"):
        from trl.generation.vllm_client import VLLMClient

        arguments = trainer.args
        url = arguments.vllm_server_base_url or f"http://{arguments.vllm_server_host}:{arguments.vllm_server_port}"
        trainer.rollout_client = VLLMClient(base_url=url, connection_timeout=arguments.vllm_server_timeout)
    return trainer.rollout_client
