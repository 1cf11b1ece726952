"""The metrics that each scorer writes to a log unless all are requested, in their order."""


def _estimate(name: str, *others: str) -> tuple[str, ...]:
    return name, "stderr", f"{name}_lower", f"{name}_upper", "mde", "n", "share_scored", *others


MAIN_FIGURES = {
    "agent_answer": _estimate("answer", "process", "answer_imputed", "calls"),
    "brier": _estimate("brier", "brier_imputed", "skill_base_rate", "skill_base_rate_lower"),
    "fact_chain": _estimate("chain", "hop_error", "hop_error_lower", "hop_error_upper"),
    "graded": _estimate("grade", "higher_is_better", "low", "high"),
    "judge_score": _estimate("judge_score", "clusters", "effective_clusters"),
    "kl_divergence": _estimate("kl", "kl_per_token", "kl_per_token_lower", "kl_per_token_upper"),
    "length": _estimate("words", "asked", "achieved", "kept"),
    "martingale": _estimate("martingale_score", "verdict"),
    "mutual_predictability": _estimate("mutual_predictability", "uplift", "null_uplift", "share_same_family"),
    "preference": _estimate("position_bias", "accuracy", "length_bias", "self_preference"),
    "qualitative": _estimate("quality", "anchor_rank", "anchor_rank_lower", "parallel_icc"),
    "reward_model": _estimate("reward", "spread", "sd"),
    "rubric": _estimate("rubric_score", "repeat_sd", "share_missed", "share_na"),
    "sycophantic_reasoning": (
        "net_sycophancy",
        "net_sycophancy_lower",
        "net_sycophancy_upper",
        "n",
        "share_scored",
        "verdict",
        "user_shift",
        "third_shift",
        "user_distance",
        "brier_wrong",
    ),
    "value_influence": _estimate("influence", "mirror_influence", "verdict"),
    "value_tracking": _estimate("skill", "skill_unlearned", "skill_present", "read"),
    "world_uplift": _estimate("world_uplift", "verdict"),
}
