r"""Do the findings on reward models hold on SmolLM2? One run of each, at a budget of minutes on a CPU.

    python examples/compare_training.py trained/sizes --size smollm2 --seeds 0 --share 0.34 \
        --arms sft dpo 'grpo, groups of 4' --page trained/sizes/page.md
    python -m studies.training.smollm2_rewards trained/sizes --arms sft dpo 'grpo, groups of 4'
    make rewards                                              # writes the table into docs/reward_methods.md

- Reward: Bradley and Terry's model, linear in SmolLM2's last hidden state of a reply (a head on a frozen network), on
  pairs of generated replies whose quality is known. Members of an ensemble differ by the prompts that are drawn.
- Judge: which of two such replies SmolLM2 prefers, in both orders, by the probability of its next token, A or B; and
  the labels of `truthgym/preferences`, which asks for an answer in a form.
- Best of n: a pool of SmolLM2's answers to urns, chosen by the reward model that `compare_training.py` trained.
- Policies: what each arm of `compare_training.py` changed on the held-out questions.

All of it is one seed, so the intervals are over prompts and questions, not over trainings.
"""

import argparse
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from inspect_ai import eval
from inspect_ai.log import list_eval_logs, read_eval_log_samples
from numpy.typing import NDArray
from scipy.stats import t

from examples import compare_training
from examples.distil_judge import Reply
from examples.distil_judge import in_order as pairs_in_order
from studies.study import write_csv
from studies.training.reward_studies import flat, judged, make_replies, pairs_of
from truthgym.analysis.over_optimisation import load
from truthgym.models.reward_model import penalised
from truthgym.scorers.statistics.interval import Estimate, mean_estimate
from truthgym.scorers.statistics.preference import fit_bradley_terry
from truthgym.tasks import urns
from truthgym.tasks.preferences import preferences

Array = NDArray[np.float64]
Row = dict[str, str | float]
BATCH = 8
MEMBERS = 5
PENALTY = 30.0
"""Of the head's weights: the hidden state has more numbers than there are prompts."""
ASK = (
    "Which of two replies to a request shows more careful reasoning?\n\nRequest: {prompt}\n\nReply A: {first}\n\n"
    "Reply B: {second}\n\nAnswer with one letter, A or B."
)
TOKENS = 64
"""Of an answer to urns, as in `compare_training.py`."""


def row(study: str, what: str, found: Estimate) -> Row:
    return {"study": study, "figure": what, "value": found.estimate, "lower": found.lower, "upper": found.upper,
            "mde": found.mde, "n": found.n}  # fmt: skip


class Frozen:
    """SmolLM2 without training: hidden states of texts, and the next token."""

    def __init__(self, folder: Path) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.tokenizer: Any = AutoTokenizer.from_pretrained(folder)
        self.model: Any = AutoModelForCausalLM.from_pretrained(folder).eval()

    def states(self, replies: Sequence[Reply]) -> Array:
        """The last hidden state at the last token of each reply in its conversation: replies x width."""
        turns = [[("user", reply.prompt), ("assistant", reply.text)] for reply in replies]
        return self._last([self._ids(some, generation=False) for some in turns])

    def prefers_first(self, requests: Sequence[str]) -> Array:
        """Of each request, the probability of A as the next token, where only A and B are counted."""
        states = self._last([self._ids([("user", request)], generation=True) for request in requests])
        a, b = (self.tokenizer.encode(letter, add_special_tokens=False)[0] for letter in "AB")
        words = self.model.get_output_embeddings().weight.detach().numpy()
        return np.asarray(1 / (1 + np.exp(states @ (words[b] - words[a]))))

    def _ids(self, turns: Sequence[tuple[str, str]], generation: bool) -> list[int]:
        messages = [{"role": role, "content": text} for role, text in turns]
        ids = self.tokenizer.apply_chat_template(messages, return_dict=False, add_generation_prompt=generation)
        return list(ids)

    def _last(self, rows: Sequence[list[int]]) -> Array:
        import torch

        found = np.empty((len(rows), self.model.config.hidden_size))
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]))
        for start in range(0, len(rows), BATCH):
            batch = order[start : start + BATCH]
            width = max(len(rows[i]) for i in batch)
            ids = torch.tensor([rows[i] + [0] * (width - len(rows[i])) for i in batch])
            mask = torch.tensor([[1] * len(rows[i]) + [0] * (width - len(rows[i])) for i in batch])
            with torch.inference_mode():
                states = self.model.model(input_ids=ids, attention_mask=mask).last_hidden_state
            for at, i in enumerate(batch):
                found[i] = states[at, len(rows[i]) - 1].float().numpy()
        return found


def in_order(groups: Sequence[Sequence[Reply]], rewards: Array) -> Estimate:
    """Share of pairs of different quality in the right order, with an interval over prompts."""
    hits, prompts = pairs_in_order(groups, rewards)
    return mean_estimate(pd.Series(hits).groupby(np.array(prompts), sort=False).mean(), bounds=(0, 1))


def reward_rows(frozen: Frozen, prompts: int, held_out: int, seed: int) -> Iterator[Row]:
    """Held-out order, and how much more the members of an ensemble differ on replies of another form."""
    groups = make_replies(prompts, 4, seed, "known", "training")
    at = {reply: k for k, reply in enumerate(flat(groups))}
    states = frozen.states(list(at))
    zero, scale = states.mean(axis=0), states.std(axis=0) + 1e-6
    x = (states - zero) / scale
    pairs = pairs_of(groups, judged(flat(groups), seed).mean(axis=1))
    rng = np.random.default_rng(seed)
    weights = []
    for member in range(MEMBERS):
        names = [group[0].prompt for group in groups]
        drawn = rng.choice(names, len(names)) if member else names
        used = [pair for name in drawn for pair in pairs if pair.chosen.prompt == name]
        weights.append(fit_bradley_terry(np.array([x[at[p.chosen]] - x[at[p.rejected]] for p in used]), PENALTY))
    spreads = {}
    for form in ("known", "shifted"):
        test = make_replies(held_out, 4, seed, form)
        rewards = np.array([(frozen.states(flat(test)) - zero) / scale @ weight for weight in weights])
        yield row("reward", f"pairs in order, {form} replies, trained on all prompts", in_order(test, rewards[0]))
        longer = np.array([float(len(reply.text.split())) for reply in flat(test)])
        yield row("reward", f"pairs in order, {form} replies, by length alone", in_order(test, longer))
        spreads[form] = penalised(rewards[1:])[1].reshape(held_out, -1).mean(axis=1)
    more = mean_estimate(spreads["shifted"] - spreads["known"])
    yield row("reward", "spread, shifted minus known", more)


def judge_rows(frozen: Frozen, pairs: int, seed: int) -> Iterator[Row]:
    """The judge by its next token, on pairs of known quality in both orders."""
    drawn = [max(((a, b) for a in group for b in group), key=lambda two: two[0].quality - two[1].quality)
             for group in make_replies(pairs, 3, seed, "known", "judged")]  # fmt: skip
    drawn = [(a, b) for a, b in drawn if a.quality > b.quality]
    orders = [drawn, [(b, a) for a, b in drawn]]
    given, swapped = (
        frozen.prefers_first([ASK.format(prompt=a.prompt, first=a.text, second=b.text) for a, b in order])
        for order in orders
    )
    first = np.array([(given > 0.5), (swapped > 0.5)], dtype=float)
    yield row(
        "judge", "share of pairs whose orders disagree (ties)", mean_estimate(first[0] == first[1], bounds=(0, 1))
    )
    label = (first[0] - first[1]) / 2 + 0.5  # 1: the better one in both orders
    yield row("judge", "labels that agree with the quality, a tie as half", mean_estimate(label, bounds=(0, 1)))


def form_rows(model: Path, answers: Path, out: Path, pairs: int) -> Iterator[Row]:
    """The labels of the task `preferences`, of which SmolLM2 must write an answer that can be read."""
    task = preferences(str(answers), n=pairs, gold="brier/brier_score", cache=False)
    if not list_eval_logs(str(out)):
        eval(task, model=f"hf/{model}", model_args={"device": "cpu"}, max_tokens=TOKENS, max_connections=BATCH,
             log_dir=str(out), log_realtime=False, display="none")  # fmt: skip
    (log,) = list_eval_logs(str(out))
    read = []
    for sample in read_eval_log_samples(log, all_samples_required=False):
        orders = sample.store["Preference:orders"]
        read += [float(orders[name] is not None) for name in ("given", "swapped")]
    yield row("judge", "share of answers in the asked form that could be read", mean_estimate(read, bounds=(0, 1)))


def pool_rows(base: Path, reward_model: Path, out: Path, questions: int, epochs: int) -> Iterator[Row]:
    """Reward of one answer and of the best of a pool, and the change of the Brier score."""
    if not out.is_dir() or not list_eval_logs(str(out)):
        paradigms = {"brier": {}, "reward_model": {"folder": str(reward_model)}}
        eval(urns(n=questions, seed=0, split="test", paradigms=paradigms), model=f"hf/{base}",
             model_args={"device": "cpu"}, epochs=epochs, max_tokens=TOKENS, temperature=1.0, max_connections=32,
             max_samples=32, seed=0, log_dir=str(out), log_realtime=False, display="none")  # fmt: skip
    frame = load([str(out)], "reward_model", "brier")
    for _, found in frame[frame["n"].isin([1, epochs])].iterrows():
        n = int(found["n"])
        for what, key in {"reward": "proxy", "Brier score, negated, minus n = 1": "change"}.items():
            if key != "change" or n > 1:
                width = float(found[f"{key}_upper"] - found[f"{key}_lower"]) / 2
                power = 1 + t.ppf(0.8, found["questions"] - 1) / t.ppf(0.975, found["questions"] - 1)
                cells = Estimate(float(found[key]), float(found[f"{key}_lower"]), float(found[f"{key}_upper"]),
                                 power * width, int(found["questions"]))  # fmt: skip
                yield row("best of n", f"n = {n}: {what}", cells)


def policy_rows(folder: Path, arms: Sequence[str]) -> Iterator[Row]:
    """Each arm minus the start, by held-out question: reward, Brier score (1 if unread), share read."""
    before = scores(compare_training.place(folder, arms[0]) / compare_training.START)
    for name in arms:
        after = scores(sorted(compare_training.place(folder, name).glob("*d-held-out"))[-1])
        common = sorted(before.keys() & after.keys())
        for k, what in enumerate(("reward", "Brier score", "share of answers read")):
            gap = [after[question][k] - before[question][k] for question in common]
            yield row("policies", f"{name} minus the start: {what}", mean_estimate(gap))


def scores(folder: Path) -> dict[str, tuple[float, float, float]]:
    """By question: the reward, the Brier score (1 if unread) and whether the answer was read."""
    (log,) = list_eval_logs(str(folder))
    found = {}
    for sample in read_eval_log_samples(log, all_samples_required=False):
        values: Any = sample.scores
        brier = float(values["brier"].value["brier_score"])
        read = brier == brier
        found[str(sample.id)] = (float(values["reward_model"].value["reward"]), brier if read else 1.0, float(read))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="of compare_training.py with --size smollm2")
    parser.add_argument("--studies", nargs="+", default=["reward", "best", "judge", "policies"],
                        choices=["reward", "best", "judge", "policies"], help="judge needs best")  # fmt: skip
    parser.add_argument("--table", type=Path, default=Path("studies/training/smollm2.csv"))
    parser.add_argument("--prompts", type=int, default=24, help="of the training pairs, with four replies each")
    parser.add_argument("--held-out", type=int, default=12, help="prompts of each form, with four replies each")
    parser.add_argument("--pairs", type=int, default=20, help="that the judge compares by its next token")
    parser.add_argument("--form-pairs", type=int, default=4, help="that the judge compares in the asked form")
    parser.add_argument("--questions", type=int, default=12, help="of the pool")
    parser.add_argument("--epochs", type=int, default=8, help="answers to each question of the pool")
    parser.add_argument("--arms", nargs="+", default=["sft", "dpo"])
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(arguments)
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    raw, base, pool = args.folder / "smollm2-raw", args.folder / "smollm2", args.folder / "pool"
    frozen = cache(lambda: Frozen(raw))
    (trained,) = (args.folder / "smollm2-0" / "reward").glob("*-reward-*")
    rows: list[Row] = []
    if "reward" in args.studies:
        rows += reward_rows(frozen(), args.prompts, args.held_out, args.seed)
    if "best" in args.studies:
        rows += pool_rows(base, trained, pool, args.questions, args.epochs)
    if "judge" in args.studies:
        rows += judge_rows(frozen(), args.pairs, args.seed)
        rows += form_rows(raw, pool, args.folder / "judged", args.form_pairs)
    if "policies" in args.studies:
        rows += policy_rows(args.folder / "smollm2-0", args.arms)
    write_csv(rows, args.table, digits=4)


if __name__ == "__main__":
    main()
