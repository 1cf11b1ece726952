"""KL divergence: how far has training moved a model from the one that it started from?

inspect eval truthgym/urns -T paradigms=brier,kl_divergence --model hf/policy:after -M model_path=trained/after \
    --model-role 'base={model: hf/policy:before, model_args: {model_path: trained/tiny}}'
inspect score LOG --scorer truthgym/kl_divergence --model-role base=vllm/Qwen/Qwen2.5-0.5B-Instruct --action append
"""

from typing import cast

import numpy as np
from inspect_ai.model import ChatMessageAssistant, ContentReasoning, GenerateConfig, get_model
from inspect_ai.scorer import SampleScore, Score, Scorer, Target, Value, scorer
from inspect_ai.solver import TaskState

from truthgym.datasets.errors import validate_call
from truthgym.datasets.inspect_private import active_generate_config
from truthgym.datasets.question import Question, question_of
from truthgym.models.predictor import check_method, reply_logprobs
from truthgym.scorers.declaration import Figures, ScorerDeclaration, figures_metric, requested
from truthgym.scorers.statistics.table import tabulate
from truthgym.solvers.roles import required_model

KEYS = ("kl", "kl_per_token", "tokens")


def summarise(scores: list[SampleScore]) -> dict[str, float]:
    """Compute the metrics from scores. NaN if there are too few of them."""
    tables = {key: tabulate(scores, key, most=np.inf, least=-np.inf) for key in KEYS}
    means = {key: table.mean() for key, table in tables.items()}
    return {
        **means["kl"].main_metrics("kl", tables["kl"].share_scored),
        **means["kl_per_token"].metrics("kl_per_token"),
        "tokens": means["tokens"].estimate,
        **means["kl"].cluster_metrics(),
    }


divergence = figures_metric("divergence", summarise)


@scorer(metrics=[divergence()])
@validate_call
def kl_divergence(figures: Figures = "headline") -> Scorer:
    r"""KL divergence of the evaluated model from a base model, in nats a reply, estimated on the replies of the log.

    $$\widehat{\mathrm{KL}}=\frac1n\sum_i\log\pi(y_i\mid x_i)-\log\pi_0(y_i\mid x_i),\qquad y_i\sim\pi(\cdot\mid x_i)$$

    0 is the base model's distribution; larger is farther. It is neither good nor bad: it is the price of a gain, and
    two checkpoints with the same gain differ by it. A single reply may be below 0; the mean is below 0 by chance alone.

    It is unbiased for replies that the model itself sampled at temperature 1, without top-p or top-k; with other
    settings no reply is scored, since it would be another number. Settings that are not given count as these: give
    --temperature 1 --top-p 1 where a provider, or a model's generation_config.json, has other defaults. It is of the
    last reply, given the conversation before it, without its end token; a reply with a provider's separate reasoning is
    not scored. The text is split into tokens anew.

    Metrics, as `scorers.declaration` says: `kl` with its companions; `kl_per_token` with bounds, the mean over replies
    of nats a token; with `figures="all"` also `tokens`, the mean length of a reply.

    A sample's value holds `kl`, `kl_per_token` and `tokens`, NaN without a reply or where a model cannot read it. Two
    model calls, one of the evaluated model and one of the role `base`, both of which must give the log-probability of a
    given reply (docs/logprobs.md).

    Raises:
        BadInput: No model in the role `base`, or one that cannot give log-probabilities of a given reply.

    References:
        Schulman (2020). Approximating KL Divergence: the estimator k1. Gao et al. (2022), arXiv:2210.10760: gold and
        proxy reward by KL.
    """

    async def score(state: TaskState, target: Target) -> Score:
        models = get_model(), required_model("base", alone=True)
        for model in models:
            check_method(model, "teacher_forced")
        place = max((i for i, m in enumerate(state.messages) if isinstance(m, ChatMessageAssistant)), default=-1)
        reply = state.messages[place] if place > 0 else None
        reason = _other_sampling(models[0].config.merge(active_generate_config()))
        if reason is None and not (reply and reply.text.strip()):
            reason = "The sample has no reply."
        if reply and not isinstance(reply.content, str) and any(isinstance(c, ContentReasoning) for c in reply.content):
            reason = "The reply has a separate reasoning, whose probability is not known."
        values = dict.fromkeys(KEYS, np.nan)
        if reply and reason is None:
            own, base = [(await reply_logprobs(m, state.messages[:place], [reply.text], "teacher_forced"))[0]
                         for m in models]  # fmt: skip
            reason = own.reason or base.reason or None
            if reason is None:
                kl = own.total - base.total
                values = {"kl": kl, "kl_per_token": kl / own.count, "tokens": own.count}
        return Score(
            value=cast(Value, values),
            explanation=reason or f"{values['kl']:.3g} nats in {values['tokens']:g} tokens.",
            metadata={"epoch": state.epoch, "event": question_of(state, Question).event, "reason": reason}
            | requested(figures),
        )

    return score


def _other_sampling(config: GenerateConfig) -> str | None:
    """Why replies with these settings do not estimate the divergence."""
    full = {"temperature": (None, 1), "top_p": (None, 1), "top_k": (None, -1, 0)}
    values = {name: getattr(config, name) for name in full}
    other = ", ".join(f"{name}={value:g}" for name, value in values.items() if value not in full[name])
    if not other:
        return None
    return f"Replies with {other} do not estimate it; run the eval with --temperature 1, without top-p and top-k"


DECLARATION = ScorerDeclaration(
    scorer=kl_divergence,
    question="How far has training moved the model from the one that it started from?",
    better="neither; 0 is the base model",
    needs="two models that give the log-probability of a given reply",
    columns={"kl": "KL", "kl_per_token": "KL a token"},
    figures=summarise,
    reference=0.0,
    forecasting_roles=("base",),
    roles=lambda **_: ("base",),
    asks_model=lambda **_: True,
    calls=lambda **_: (2, 0),
)
