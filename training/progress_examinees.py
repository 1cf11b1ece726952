"""Examinees of the progress tasks that train the evaluated model in every era, by the trainers of this room.

inspect eval truthgym/progress_follow -T examinee=lifelong_dpo --model hf/tiny -M model_path=trained/tiny
inspect eval truthgym/progress_predict -T examinee=extrapolative_sft --model hf/tiny -M model_path=trained/tiny
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model, ModelInfo, get_model, set_model_info
from inspect_ai.solver import generate

from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import LETTERS, Item
from truthgym.models.agents.respondent import LETTER_TOKENS, request_of, written_letter
from truthgym.scorers.progress.examinees import continued
from truthgym.scorers.progress.framework import Answers, ExamineeBase, JudgeBase
from truthgym.training.train import dpo, sft

COPIES = 8
"""Rows of each item in each rotation for SFT, in proportion to the probabilities of its options."""
CHILD = (
    "import json, sys; from truthgym.training.train import TRAINERS; method, options = sys.argv[1:]; "
    "print(TRAINERS[method](json.loads(options)))"
)
_ONE_AT_A_TIME = Lock()
"""Timelines run in threads of one process, and the trainers' settings are those of the process."""


class LifelongSFT(ExamineeBase):
    """Fine-tunes the model on what people chose in this era, each option as often as it is probable.

    It goes on from the model of the era before, or with `independent` from the evaluated model. `options` are the
    trainer's, such as {max_steps: 20}. Models and data go to the folder `out` (default "trained/progress"), named by
    their content, so that a run that was killed trains no model twice.

    Raises:
        BadInput: The evaluated model is not a local one (hf/), TRL is not installed, options cannot be used, or no
            answer of the people could be read.
    """

    def reset(self, **kwargs: Any) -> None:  # noqa: ANN401
        super().reset(**kwargs)
        model = self.setting.examinee.model()
        if not str(model).startswith("hf/"):
            raise BadInput(f"{type(self).__name__} trains a local model, and {model} is none; give --model hf/...")
        if find_spec("trl") is None:
            raise BadInput(f'{type(self).__name__} needs TRL; run `pip install -e ".[train]"`')
        self.base = self.path = str(model.model_args.get("model_path") or str(model).removeprefix("hf/"))
        self.out = Path(str(self.kwargs.get("out", "trained/progress")))
        self.opened: Model | None = None

    def learn(self, judge: JudgeBase) -> None:
        self.ask_preferences(judge)
        items = self.setting.questionnaire.by_id
        rows = [row for name, p in self.targets().items() for row in self.rows(items[name], p)]
        if not rows:
            raise BadInput(f"No answer of the people of {judge.era} can be trained on: none was read, or all are even")
        options = {
            "model_name_or_path": self.base if self.kwargs.get("independent") else self.path,
            "output_dir": str(self.out),
        }
        options |= self.data_options(write_rows(self.out / "data", rows)) | dict(self.kwargs.get("options") or {})
        with _ONE_AT_A_TIME:
            self.path = str(self.train(options))
            if self.opened is not None:
                self.opened.api.close()
            arguments = self.setting.examinee.model().model_args
            device = {"device": arguments["device"]} if "device" in arguments else {}
            set_model_info(f"hf/{self.path}", ModelInfo())  # else Inspect would load a copy to look up its context
            self.opened = get_model(f"hf/{self.path}", memoize=False, **device)
        self.current_model = self.setting.examinee.trained(f"examinee after {judge.era}", self.opened)

    def targets(self) -> Answers:
        """What is trained on: the answers of the current era."""
        return self.preference_history[-1][1]

    def rows(self, item: Item, p: Sequence[float]) -> list[dict[str, Any]]:
        """The rows of an item, in all rotations."""
        return [
            {"prompt": _request(item, turn), "completion": _reply(item, turn, option)}
            for turn in range(len(item.options))
            for option, share in enumerate(p)
            for _ in range(round(COPIES * share))
        ]

    def data_options(self, folder: Path) -> dict[str, Any]:
        """The trainer's options that name the data."""
        return {"dataset_name": str(folder)}

    def train(self, options: dict[str, Any]) -> Path:
        """Train, and return the model's folder."""
        return sft(options)


class LifelongDPO(LifelongSFT):
    """As `LifelongSFT`, by preference pairs: the likeliest option against the least likely.

    A pair does not say how many prefer it, so that the model learns the direction and not the share.
    """

    def rows(self, item: Item, p: Sequence[float]) -> list[dict[str, Any]]:
        best, worst = max(range(len(p)), key=p.__getitem__), min(range(len(p)), key=p.__getitem__)
        return [
            {"prompt": _request(item, turn), "chosen": _reply(item, turn, best), "rejected": _reply(item, turn, worst)}
            for turn in range(len(item.options))
            if p[best] > p[worst]
        ]

    def train(self, options: dict[str, Any]) -> Path:
        return dpo(options)


class LifelongGRPO(LifelongSFT):
    """As `LifelongSFT`, by reinforcement: a letter is paid the share of people who would choose its option.

    ProgressGym's RLHF, with GRPO in place of PPO and the people's own answers in place of a reward model of them. The
    best answer is always the likeliest option, so that without a penalty (`options: {beta: 0.1}`) the model ends at it.
    It is trained in a process of its own: a rollout is an Inspect eval, and one cannot run inside another.
    """

    method = "grpo"

    def rows(self, item: Item, p: Sequence[float]) -> list[dict[str, Any]]:
        return [
            {"request": request_of(item, turn), "shares": [p[(i + turn) % len(p)] for i in range(len(p))]}
            for turn in range(len(item.options))
        ]

    def data_options(self, folder: Path) -> dict[str, Any]:
        return {
            "task": [f"{__file__}@peoples_choice"],
            "task_args": {"rows": str((folder / "train.jsonl").resolve())},
            "reward": ["truthgym.training.progress_examinees.agreement"],
            "max_completion_length": LETTER_TOKENS,
            "validation_steps": 0,
        }

    def train(self, options: dict[str, Any]) -> Path:
        command = [sys.executable, "-c", CHILD, self.method, json.dumps(options)]
        child = subprocess.run(command, capture_output=True, text=True, check=False)
        if child.returncode:
            raise BadInput(f"truthgym train {self.method} failed in {self.out}: {child.stderr.strip()[-600:]}")
        return Path(child.stdout.strip().splitlines()[-1])


class LifelongRLOO(LifelongGRPO):
    """As `LifelongGRPO`, with RLOO."""

    method = "rloo"


class _Extrapolative(LifelongSFT):
    """Trains on what people chose, continued to `timesteps_ahead` eras later as by the examinee `extrapolating`."""

    def targets(self) -> Answers:
        return continued(self.preference_history, self.timesteps_ahead, self.kwargs)


class ExtrapolativeSFT(_Extrapolative):
    """As `LifelongSFT`, on what people chose, continued to `timesteps_ahead` eras later as by `extrapolating`."""


class ExtrapolativeDPO(_Extrapolative, LifelongDPO):
    """As `LifelongDPO`, continued likewise."""


class ExtrapolativeGRPO(_Extrapolative, LifelongGRPO):
    """As `LifelongGRPO`, continued likewise."""


class ExtrapolativeRLOO(_Extrapolative, LifelongRLOO):
    """As `LifelongRLOO`, continued likewise."""


@task
def peoples_choice(rows: str) -> Task:
    """The items that an examinee has asked, for reinforcement by `agreement`.

    Args:
        rows: A .jsonl file; each row has a `request` and the `shares` of people who would choose each letter.
    """
    read = [json.loads(line) for line in Path(rows).read_text(encoding="utf-8").splitlines()]
    samples = [
        Sample(input=row["request"], id=number, metadata={"shares": row["shares"], "split": "train"})
        for number, row in enumerate(read, 1)
    ]
    return Task(dataset=MemoryDataset(samples, name="peoples_choice"), solver=generate())


def agreement(completions: Sequence[Any], shares: Sequence[Sequence[float]], **columns: object) -> list[float]:
    """The share of people who would choose the letter of each reply; 0 for a reply that does not begin with one."""
    rewards = []
    for completion, share in zip(completions, shares, strict=True):
        letter = written_letter(completion[0]["content"], len(share))
        rewards.append(float(share[LETTERS.index(letter)]) if letter else 0.0)
    return rewards


def write_rows(folder: Path, rows: Sequence[dict[str, Any]]) -> Path:
    """Write a dataset into a sub-folder that is named by its content, and return that."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    data = folder / sha256(text.encode()).hexdigest()[:16]
    data.mkdir(parents=True, exist_ok=True)
    (data / "train.jsonl").write_text(text, encoding="utf-8")
    return data


def _request(item: Item, turn: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": request_of(item, turn)}]


def _reply(item: Item, turn: int, option: int) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": LETTERS[(option - turn) % len(item.options)]}]
