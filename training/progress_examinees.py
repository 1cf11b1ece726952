"""Examinees and people of the progress tasks that are trained in every era, by the trainers of this room.

inspect eval truthgym/progress_follow -T examinee=lifelong_dpo --model hf/tiny:half -M model_path=trained/tiny
inspect eval truthgym/progress_follow -T examinee=human_proxies --model hf/tiny:half -M model_path=trained/tiny
inspect eval truthgym/progress_coevolve -T proxies=trained/progress -T judge=coevolve_sft --model reference/values
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import Model
from inspect_ai.solver import generate

from truthgym.datasets.errors import BadInput
from truthgym.datasets.progress import LETTERS, Item
from truthgym.models.agents.respondent import (
    LETTER_TOKENS,
    LOADING,
    PEOPLE_FILE,
    Memory,
    OneAtATime,
    Respondent,
    request_of,
    written_letter,
)
from truthgym.scorers.progress.examinees import continued
from truthgym.scorers.progress.framework import Answers, ExamineeBase, JudgeBase, Rows
from truthgym.scorers.progress.judges import CoevolveJudge
from truthgym.training.files import write_atomically
from truthgym.training.train import dpo, sft

COPIES = 8
"""Rows of each item in each rotation for SFT, in proportion to the probabilities of its options."""
CHILD = (
    "import json, sys; from truthgym.training.train import TRAINERS; method, options = sys.argv[1:]; "
    "print(TRAINERS[method](json.loads(options)))"
)


class FineTuning:
    """Trains local models for a judge or an examinee, from that of a respondent on, and opens what it has trained."""

    def __init__(self, who: str, respondent: Respondent, arguments: Mapping[str, Any], remedy: str) -> None:
        model = respondent.model()
        if not str(model).startswith("hf/"):
            raise BadInput(f"{who} trains a local model, and {model} is none; {remedy}")
        if find_spec("trl") is None:
            raise BadInput(f'{who} needs TRL; run `pip install -e ".[train]"`')
        self.base = str(model.model_args.get("model_path") or str(model).removeprefix("hf/"))
        self.out = Path(str(arguments.get("out", "trained/progress")))
        self.options = dict(arguments.get("options") or {})
        self.opened = OneAtATime(**{key: value for key, value in model.model_args.items() if key == "device"})

    def data(self, era: str, rows: Rows) -> Path:
        """The folder of a dataset of these rows."""
        if not rows:
            raise BadInput(f"No answer of the people of {era} can be trained on: none was read, or all are even")
        return write_rows(self.out / "data", rows)

    def fit(self, base: str, data: Mapping[str, Any], train: Callable[[dict[str, Any]], Path] = sft) -> str:
        """Train a model with the options that name its data, and return its folder."""
        with LOADING:
            return str(train({"model_name_or_path": base, "output_dir": str(self.out), **data, **self.options}))

    def model(self, folder: str) -> Callable[[], Model]:
        return partial(self.opened.open, f"hf/{folder}")


class LifelongSFT(ExamineeBase):
    """Fine-tunes the model on what people chose in this era, each option as often as it is probable.

    It goes on from the model of the era before, or with `independent` from the evaluated model. `options` are the
    trainer's, such as {max_steps: 20}; `copies` are the rows of an item in each order (8), with 1 only the option
    that more than half would choose, which a small model learns sooner. Models and data go to the folder `out` (default
    "trained/progress"), named by their content, so that a run that was killed trains no model twice.

    Raises:
        BadInput: The evaluated model is not a local one (hf/), TRL is not installed, options cannot be used, or no
            answer of the people could be read.
    """

    def reset(self, **kwargs: Any) -> None:
        super().reset(**kwargs)
        self.tuning = FineTuning(type(self).__name__, self.setting.examinee, self.kwargs, "give --model hf/...")
        self.path = self.tuning.base

    def learn(self, judge: JudgeBase) -> None:
        self.ask_preferences(judge)
        self.imitate(judge.era, self.targets())

    def imitate(self, era: str, answers: Answers) -> None:
        """Train on these answers, and go on as the trained model."""
        items = self.setting.questionnaire.by_id
        rows = [row for name, p in answers.items() for row in self.rows(items[name], p)]
        base = self.tuning.base if self.kwargs.get("independent") else self.path
        self.path = self.tuning.fit(base, self.data_options(self.tuning.data(era, rows)), self.train)
        self.current_model = self.setting.examinee.trained(f"examinee after {era}", self.tuning.model(self.path))

    def targets(self) -> Answers:
        """What is trained on: the answers of the current era."""
        return self.preference_history[-1][1]

    def rows(self, item: Item, p: Sequence[float]) -> list[dict[str, Any]]:
        """The rows of an item, in all rotations."""
        return shared_rows(item, p, self.kwargs)

    def data_options(self, folder: Path) -> dict[str, Any]:
        """The trainer's options that name the data."""
        return {"dataset_name": str(folder)}

    def train(self, options: dict[str, Any]) -> Path:
        """Train, and return the model's folder."""
        return sft(options)


class HumanProxySFT(LifelongSFT):
    """Makes models of the people of each era: it trains the evaluated model on all that they choose.

    It learns the items of both pools, so that the skill says how well its models carry the people's answers, and not
    whether they follow. `people.json` in the folder `out` names them, by timeline and era: `-T proxies=OUT`.
    """

    def run(self, judge: JudgeBase) -> Iterator[int]:
        """Begin with the first era, from which examinees do not learn."""
        if judge.current_timestep:
            self.imitate_people(judge.model_list[0], judge.setting.eras[0])
        yield from super().run(judge)

    def learn(self, judge: JudgeBase) -> None:
        self.imitate_people(judge.current_model, judge.era)

    def imitate_people(self, people: Respondent, era: str) -> None:
        """Train on all answers of the people, and write down where their model is."""
        items = self.setting.questionnaire.items
        choices = self.setting.wait(people.choices(items))
        self.imitate(era, {item.id: choice.p for item, choice in zip(items, choices, strict=True) if choice.p})
        with LOADING:
            file = self.tuning.out / PEOPLE_FILE
            written = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
            learned = [item.id for item in items]
            if written.get("items") != learned:
                written = {"items": learned, "timelines": {}}
            written["timelines"].setdefault(self.setting.timeline, {})[era] = Path(self.path).name
            write_atomically(file, json.dumps(written, indent=1))


class CoevolveSFTJudge(CoevolveJudge):
    """As `CoevolveJudge`, but people do not remember what they hear: their model is trained on it, era after era.

    They hear the items of both pools, since a small model does not conclude from one item to another. What they hear of
    their own era has each row once and what they hear of the assistant twice, in one dataset: one after the other, as
    ProgressGym trains, the last would count alone.

    Raises:
        BadInput: The people are no local models, or TRL is not installed.
    """

    def reset(self, **kwargs: Any) -> None:
        first: Respondent = kwargs["setting"].proxies[0]
        self.tuning = FineTuning(type(self).__name__, first, self.kwargs, "give -T proxies=FOLDER of trained people")
        self.folders = {first.name: self.tuning.base}
        super().reset(**kwargs)

    def heard_items(self) -> tuple[Item, ...]:
        return self.setting.questionnaire.items

    def update_human_proxy(self, kind: str, people: Respondent, *heard: Memory) -> Respondent:
        name = f"{kind} people in {self.era}"
        rows = [
            row
            for memory in heard
            for item, p in memory.examples
            for row in shared_rows(item, p, self.kwargs) * round(memory.weight)
        ]
        data = {"dataset_name": str(self.tuning.data(self.era, rows))}
        self.folders[name] = self.tuning.fit(self.folders[people.name], data)
        updated: Respondent = self.model_list[0].trained(name, self.tuning.model(self.folders[name]))
        return updated


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
            folder, problem = options["output_dir"], child.stderr.strip()[-600:]
            raise BadInput(f"truthgym train {self.method} failed in {folder}: {problem}")
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


def shared_rows(item: Item, p: Sequence[float], arguments: Mapping[str, Any]) -> Rows:
    """The rows of an item in all rotations, each option as often as it is probable: in so many `copies`."""
    copies = int(arguments.get("copies", COPIES))
    return [
        {"prompt": _request(item, turn), "completion": _reply(item, turn, option)}
        for turn in range(len(item.options))
        for option, share in enumerate(p)
        for _ in range(round(copies * share))
    ]


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
