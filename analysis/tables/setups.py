"""The runs of a folder of logs: which model answered which questions in which setting, as the logs themselves say."""

import sys
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache, reduce
from inspect import signature
from operator import and_
from pathlib import Path
from typing import Any, TypeVar, Union

from truthgym.analysis.tables.markdown import UNPRINTABLE
from truthgym.datasets.digests import text_number
from truthgym.datasets.errors import BadInput
from truthgym.datasets.redaction import is_secret, redact, redacted
from truthgym.evallog.discovery import UNREADABLE, LogFile, LogState, find_logs, log_states
from truthgym.evallog.header import RoleModel, ScorerResults
from truthgym.tasks.domain_task import SCORER_BY_NAME

T = TypeVar("T")
Places = Union[str, Path, Sequence[str | Path], "Runs"]  # of a class below
"""Logs and folders of logs, or what was found there."""
DEFAULT = "direct"
"""The solver of a task that names none."""
UNNAMED = {"paradigms", "metric", "figures", "n"}
"""Task arguments that do not change what is asked, or have a column of their own."""
WITHOUT_EFFECT = {
    "adaptive_connections", "attempt_timeout", "batch", "batch_size", "cache", "device", "device_map",
    "max_connections", "max_retries", "seed", "timeout",
}  # fmt: skip
"""Model arguments and generation settings that do not make it another model; nor does a key."""
MODEL = "model"
"""To what the options of a model belong."""
ENTRANT = "examinee"
"""The task argument that is part of who is compared, not of what is asked: how a model learns in a progress task."""
PREPARE = ("truthgym/prepare", "truthgym/forecasters")
GRADER = "grader"
"""The model role of Inspect's own scorers."""
SCORER_ROLES = {GRADER, "forecaster", "investigator", "judge", "reader"}
"""Model roles that do not change what the model was asked."""

SOLVER_ROLES = {
    "debater_a": "self_debate", "debater_b": "self_debate", "human_proxy": "timeline", "interlocutor": "dialogue",
    "interviewer": "llm_", "predictor": "predict_answers",
}  # fmt: skip
"""What a step that asks the role has in it: the solver, also as the base of another, or the start of its mode."""
LONG, SAME, LONGEST = 60, 24, 150
"""Characters of a value that is not shortened, of a longer one that all have, and of a name with all its options."""


class OptionTexts:
    """The values of options as texts on one line, without keys: of long ones the words in which they differ."""

    def __init__(self, options_of: Iterable[tuple[str, Mapping[str, Any]]] = ()) -> None:
        """Collect the options of all that is compared, each with what it belongs to."""
        self.full: dict[tuple[str, str], dict[str, str]] = {}
        """By owner and option, each value without keys."""
        for owner, arguments in options_of:
            for name, value in arguments.items():
                values, raw = self.full.setdefault((owner, name), {}), str(value)
                if raw not in values:
                    values[raw] = str(redacted({name: value})[name])
        self.short = {option: _shortened(values) for option, values in self.full.items()}

    def of(self, owner: str, name: str, value: object) -> str:
        raw = str(value)
        short = self.short.get((owner, name), {}).get(raw)
        return _shortened({raw: str(redacted({name: value})[name])})[raw] if short is None else short

    def differences(
        self, owner: str, before: Mapping[str, Any], after: Mapping[str, Any], but: Collection[str] = UNNAMED
    ) -> str:
        """What differs between the options of two runs: "n is 20, not its default; ...". Empty if nothing does."""

        def text(name: str, arguments: Mapping[str, Any]) -> str:
            value = arguments.get(name)
            return "its default" if value is None else self.of(owner, name, value)

        names = sorted({*before, *after}.difference(but))
        differing = [name for name in names if str(before.get(name)) != str(after.get(name))]
        return "; ".join(f"{name} is {text(name, after)}, not {text(name, before)}" for name in differing)

    @property
    def long(self) -> list[tuple[str, str]]:
        """Each option that is shortened, as it is shown, with its full text."""
        return [
            (f"{owner} {name}={self.short[owner, name][raw]}", full)
            for (owner, name), values in self.full.items()
            for raw, full in values.items()
            if len(full) > LONG
        ]


def _shortened(texts: Mapping[str, str]) -> dict[str, str]:
    """For each value the words that not all values have, or its ends; values with equal ones are numbered."""
    words = {raw: UNPRINTABLE.sub(" ", text).split() for raw, text in texts.items()}
    shared = reduce(and_, map(Counter, words.values()))
    short: dict[str, str] = {}
    seen = Counter[str]()
    for raw, _ in sorted(texts.items(), key=lambda item: (item[1], item[0])):
        own, common = list[str](), shared.copy()
        for word in words[raw]:
            common[word] -= 1
            own += [word] if common[word] < 0 else ["..."] * (own[-1:] != ["..."])
        line = " ".join(words[raw])
        label, most = (" ".join(own) if set(own) - {"..."} else line, LONG) if len(texts) > 1 else (line, SAME)
        if len(line) <= LONG:
            label = line
        elif len(label) > most:
            label = f"{label[: most - 3].rstrip()}..." if " " in label else f"{label[:8]}...{label[11 - most :]}"
        seen[label] += 1
        short[raw] = label + f" ({seen[label]})" * (seen[label] > 1)
    return short


@lru_cache(maxsize=10_000)
def one_line(text: str) -> str:
    """A name on one line that is not too long to be read; one that is cut ends in its digest."""
    plain = UNPRINTABLE.sub(" ", text)
    return plain if len(plain) <= LONGEST else f"{plain[: LONGEST - 12]}... #{text_number(text, 3):06x}"


@dataclass(frozen=True, eq=False)
class Run:
    """A finished eval, with the setup in which its model answered."""

    log: LogFile
    model: str
    """With its arguments, and the generation settings and examinees that differ between its evals."""
    domain: str
    task: str
    """The task arguments that differ between the evals of a domain."""
    mode: str
    """`mode` in the task's metadata (as in examples/sweep.py), or else the solver with its arguments."""
    roles: Mapping[str, str] = field(default_factory=dict)
    """The models in roles, such as the judge, that differ between the evals of a domain."""
    texts: OptionTexts = field(default_factory=OptionTexts)
    """Of the options of scorers."""

    @property
    def setup(self) -> str:
        """Domain, task and mode in one text."""
        return one_line(f"{self.domain}{f' {self.task}' if self.task else ''}, {self.mode}")

    @property
    def columns(self) -> dict[str, str]:
        """The columns that the tables have for every row of a run."""
        spec = self.log.header.eval
        texts = {"log": self.log.path, "eval_id": spec.eval_id, "created": spec.created}
        return texts | {name: getattr(self, name) for name in ("model", "domain", "task", "mode", "setup")}

    @cached_property
    def scorers(self) -> dict[str, str]:
        """From the names of scores in the log to `scorer_label`."""
        results = self.log.header.results
        labels: dict[str, str] = {}
        for result in results.scores if results else []:
            # Inspect's own metrics of a dict have a result for each key, under the key's name.
            for name in (result.name, bare_name(result.scorer)):
                labels.setdefault(name, self.scorer_label(result))
        return labels

    def scorer_label(self, result: ScorerResults) -> str:
        """A scorer's name with the options that differ from its defaults, and the judges that differ between evals."""
        declaration = SCORER_BY_NAME.get(bare_name(result.scorer))
        defaults = signature(declaration.scorer).parameters if declaration else {}
        changed = {
            name: value
            for name, value in result.params.items()
            if name != "figures" and (name not in defaults or value != defaults[name].default)
        }
        judges: dict[str, str] = {}
        if self.roles:
            used = declaration.roles(**result.params) if declaration else (GRADER,)
            judges = {role: model for role, model in self.roles.items() if role in used}
        judge = self.log.reader.judges.get(result.name, "")
        names = sorted(model.model for model in _models(self.log, "judge"))
        if judge and judge != ", ".join(names):
            judges["judge"] = judge
        name = bare_name(result.scorer)
        return one_line(" ".join([name, *options(changed, self.texts, name), *options(judges)]))


@dataclass(frozen=True, eq=False)
class Runs:
    """The runs found, each once, and why others are left out."""

    places: tuple[str, ...]
    runs: tuple[Run, ...]
    """Newest first."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """Number of logs left out, by reason."""
    damaged: dict[str, str] = field(default_factory=dict)
    """By path, why the samples of a log could not be read when a table needed them."""

    def __iter__(self) -> Iterator[Run]:
        return (run for run in self.runs if run.log.path not in self.damaged)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def place(self) -> str:
        return ", ".join(self.places)

    @property
    def unreadable(self) -> list[str]:
        """A sentence for each file that cannot be read."""
        reasons = [reason.removeprefix(f"{UNREADABLE}: ") for reason in self.left_out if reason.startswith(UNREADABLE)]
        return [f"Left out: {reason}." for reason in [*reasons, *self.damaged.values()]]

    @property
    def skipped(self) -> list[str]:
        """A sentence for each other reason why logs are left out."""
        return [f"Left out: {number} {reason}." for reason, number in self.left_out.items() if UNREADABLE not in reason]

    @property
    def omissions(self) -> list[str]:
        """What the tables leave out: logs, and samples of logs."""
        of_samples = (f"{run.model} in {run.setup}: {said}" for run in self for said in run.log.reader.omissions)
        return [*self.unreadable, *self.skipped, *of_samples]

    @property
    def long_options(self) -> list[tuple[str, str]]:
        """Each option that names show shortened, with its full text."""
        return next((run.texts.long for run in self.runs), [])

    @property
    def notes(self) -> list[str]:
        """What the tables leave out, and what they take together."""
        again = Counter((run.model, run.setup) for run in repeated(self.runs))
        together = [f"{n + 1} runs of {model} in {setup} are taken together." for (model, setup), n in again.items()]
        return self.omissions + together

    def read(self, of_run: Callable[[Run], T]) -> Iterator[tuple[Run, T]]:
        """What a function reads from the samples of each run, with progress on the terminal."""
        from rich.console import Console
        from rich.progress import track

        quiet = not sys.stderr.isatty()
        for run in track(list(self), "Reading logs", console=Console(stderr=True), transient=True, disable=quiet):
            try:
                read = of_run(run)
            except BadInput as error:
                if len(self) == 1:
                    raise
                self.damaged[run.log.path] = str(error)
            else:
                yield run, read


def places_of(logs: Places) -> tuple[str, ...]:
    if isinstance(logs, Runs):
        return logs.places
    return (str(logs),) if isinstance(logs, str | Path) else tuple(map(str, logs))


def runs(logs: Places, among: Places = (), unfinished: bool = False) -> Runs:
    """Find the finished evals, with `unfinished` the others too, reading only the logs' headers."""
    if isinstance(logs, Runs):
        return logs
    places, others = places_of(logs), places_of(among)
    states = tuple(log_states([*places, *others]))
    settled = all(size or "://" not in path for path, size, _ in states)
    find = _find if settled else _find.__wrapped__  # of an unknown size: may have changed
    return find(places, others, states, unfinished)


def runs_if_any(logs: Places) -> Runs:
    """The same, without a run where no log is of a finished eval."""
    try:
        return runs(logs)
    except BadInput:
        return Runs((), ())


@lru_cache(maxsize=4)
def _find(places: tuple[str, ...], among: tuple[str, ...], files: tuple[LogState, ...], unfinished: bool) -> Runs:
    """The runs of files in a certain state, which is the key of the cache."""
    finished, left_out = find_logs(places, unfinished)
    logs = {log.header.eval.eval_id: log for log in reversed(finished)}  # the newest copy of each
    others = find_logs(among)[0] if among else []
    reasons = {reason: number for reason, number in left_out.items() if number}
    return Runs(places, with_setups(logs.values(), others), reasons)


def with_setups(logs: Collection[LogFile], among: Collection[LogFile] = ()) -> tuple[Run, ...]:
    """The runs of logs, newest first. Of copies the one that counts is first."""
    every = [*logs, *among]
    compared = [log for log in every if log.finished] or every
    models = _groups(compared, _base)
    tasks = _groups(compared, lambda log: log.header.eval.task)
    alike = {
        id(log): (models.get(_base(log)) or LogGroup([log]), tasks.get(log.header.eval.task) or LogGroup([log]))
        for log in every
    }
    texts = OptionTexts(option for log in every for option in _options_of(log, *alike[id(log)]))
    named = [_run(log, *alike[id(log)], texts) for log in logs]
    named.sort(key=_newest, reverse=True)
    return tuple(named)


def names_by_difference(logs: Sequence[LogFile], served: Sequence[Collection[str]]) -> tuple[list[str], str]:
    """A name for each run by what differs: model, options, solver, task arguments, version; and what else differs."""
    specs, every = [log.header.eval for log in logs], LogGroup(logs)
    setup_of = {id(run.log): run for run in with_setups(logs)}
    named = [setup_of[id(log)] for log in logs]
    texts, of_model = named[0].texts, _groups(logs, lambda log: log.header.eval.model)
    found = {"model": [spec.model for spec in specs], "solver": [run.mode for run in named]}

    def add(owner: str, name: str, values: Iterable[object]) -> None:
        found[name] = [f"{name}={'default' if value is None else texts.of(owner, name, value)}" for value in values]

    for name in sorted({name for group in of_model.values() for name in group.model_args.differing} - WITHOUT_EFFECT):
        own = [of_model[spec.model].model_args for spec in specs]
        add(MODEL, name, [each.shorten(spec.model_args).get(name) for each, spec in zip(own, specs, strict=True)])
        found[name] = [text * (name in each.differing) for text, each in zip(found[name], own, strict=True)]
    for name in sorted(every.settings):
        add(MODEL, name, [spec.model_generate_config.get(name) for spec in specs])
    for name in sorted(every.task_args.differing - UNNAMED):
        add(bare_name(specs[0].task), name, [every.task_args.shorten(spec.task_args).get(name) for spec in specs])
    for role in sorted({role for run in named for role in run.roles} & SCORER_ROLES):
        add(role, role, [run.roles.get(role) for run in named])
    found["version"] = [f"version {spec.task_version}" for spec in specs]
    parts: list[tuple[str, ...]] = [()] * len(logs)
    others = []
    for name, values in found.items():
        longer = [(*own, value) for own, value in zip(parts, values, strict=True)]
        if len(set(longer)) > len(set(parts)):
            parts = longer
        elif len(set(values)) > 1:
            shown = dict.fromkeys(value.removeprefix(f"{name}=").removeprefix(f"{name} ") for value in values if value)
            others.append(f"{name} ({', '.join(shown)})")
    dates = [spec.created.replace("T", " ")[:19] for spec in specs]
    for more in ([", ".join(sorted(each)) for each in served], [day[:10] for day in dates], dates):
        if len(set(longer := [(*own, text) for own, text in zip(parts, more, strict=True)])) > len(set(parts)):
            parts = [own if parts.count(own) == 1 else new for own, new in zip(parts, longer, strict=True)]
    names = [one_line(", ".join(filter(None, own))) for own in parts]
    names = [f"{name} ({i + 1})".strip() if names.count(name) > 1 else name for i, name in enumerate(names)]
    return names, "; ".join(others)


def repeated(evals: Iterable[Run]) -> list[Run]:
    """The finished runs whose model answered again later in the same setup, with the same scorers."""
    newest: dict[tuple[str, str, tuple[str, ...]], str] = {}
    again = []
    for run in evals:
        if run.log.finished:
            same, eval_id = (run.model, run.setup, tuple(dict.fromkeys(run.scorers.values()))), run.columns["eval_id"]
            again += [run] * (newest.setdefault(same, eval_id) != eval_id)
    return again


def options(arguments: Mapping[str, Any], texts: OptionTexts | None = None, owner: str = "") -> list[str]:
    """Arguments as they are written on a command line, without those that name a place on one machine."""
    return [
        f"{name}={texts.of(owner, name, value) if texts else value}"
        for name, value in arguments.items()
        if value is not None and not (isinstance(value, str) and Path(value).is_absolute())
    ]


def bare_name(name: str) -> str:
    """The name of a scorer or solver without its package and options, and that of one of ours without a number."""
    short = name.partition(" ")[0].rpartition("/")[2]
    unnumbered = short.rstrip("0123456789")
    return unnumbered if unnumbered in SCORER_BY_NAME else short


class LogGroup:
    """Logs of one model or of one task, and where they differ."""

    def __init__(self, logs: Sequence[LogFile]) -> None:
        specs = [log.header.eval for log in logs]
        self.settings = _differing([spec.model_generate_config for spec in specs]) - WITHOUT_EFFECT
        self.model_args = PathShortener([_without(spec.model_args) for spec in specs])
        self.task_args = PathShortener([spec.task_args for spec in specs])
        models = [{role: _role(log, role) for role in log.header.eval.model_roles or {}} for log in logs]
        self.roles = sorted(_differing(models))
        self.steps = set.intersection(*(set(_steps(log)) for log in logs))
        """Steps of the plan that all have."""


def _options_of(log: LogFile, same_model: LogGroup, same_task: LogGroup) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """All options that stand in names, each with what it belongs to."""
    spec, results = log.header.eval, log.header.results
    yield MODEL, same_model.model_args.shorten(_without(spec.model_args)) | dict(spec.model_generate_config)
    yield bare_name(spec.task), same_task.task_args.shorten(spec.task_args)
    yield from ((bare_name(step.solver), step.params_passed or {}) for step in log.header.plan.steps)
    yield from ((role, model.args) for role in spec.model_roles or {} for model in _models(log, role))
    yield from ((bare_name(score.scorer), score.params) for score in (results.scores if results else ()))


def _run(log: LogFile, same_model: LogGroup, same_task: LogGroup, texts: OptionTexts) -> Run:
    """A run, named by how it differs from those of the same model and those of the same task."""
    spec = log.header.eval
    differing = same_task.task_args.differing
    arguments = (differing - UNNAMED - {ENTRANT}) | (spec.task_args.keys() & {"domain"})
    entrant = {ENTRANT: spec.task_args.get(ENTRANT)} if ENTRANT in differing else {}
    roles = {role: _role(log, role, texts) for role in same_task.roles if role in (spec.model_roles or {})}
    # A mode that the task names itself, in its metadata, is told apart by that name.
    named = "mode" in (spec.metadata or {})
    partners = {role: model for role, model in roles.items() if role not in SCORER_ROLES and not named}
    if all(step.solver.startswith("truthgym/") for step in log.header.plan.steps):  # others may ask any role
        steps = " ".join(_steps(log))
        partners = {role: model for role, model in partners.items() if SOLVER_ROLES.get(role, "") in steps}
    settings = {name: spec.model_generate_config.get(name) for name in sorted(same_model.settings)}
    model_args = same_model.model_args.shorten(_without(spec.model_args)) | settings
    task_args = {name: same_task.task_args.shorten(spec.task_args).get(name) for name in sorted(arguments)}
    return Run(
        log,
        model=one_line(" ".join([spec.model, *options(model_args, texts, MODEL), *options(entrant)])),
        domain=one_line(spec.task.removeprefix("truthgym/")),
        task=one_line(" ".join(options(task_args, texts, bare_name(spec.task)))),
        mode=one_line(" ".join([_mode(log, same_task, texts), *options(partners)])),
        roles=roles,
        texts=texts,
    )


def _base(log: LogFile) -> str:
    """A model with its arguments, without paths."""
    arguments = _without(log.header.eval.model_args)
    return " ".join([log.header.eval.model, *options({n: v for n, v in arguments.items() if not _is_path(n, v)})])


def _groups(logs: Iterable[LogFile], key: Callable[[LogFile], str]) -> dict[str, LogGroup]:
    groups: dict[str, list[LogFile]] = {}
    for log in logs:
        groups.setdefault(key(log), []).append(log)
    return {name: LogGroup(group) for name, group in groups.items()}


def _without(arguments: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in arguments.items() if name not in WITHOUT_EFFECT and not is_secret(name)}


def _differing(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """Names whose values differ. One that a record lacks is None there."""
    return {name for name in set[str]().union(*records) if len({str(record.get(name)) for record in records}) > 1}


def _is_path(name: str, value: object) -> bool:
    return isinstance(value, str) and (name == "model_path" or Path(value).is_absolute())


class PathShortener:
    """Shortens the arguments of logs that are compared: paths that are the same in all are left out."""

    def __init__(self, records: Sequence[Mapping[str, Any]]) -> None:
        self.differing = _differing(records)
        self.parts: dict[str, int] = {}
        for name in self.differing:
            paths = {Path(record[name]).parts for record in records if _is_path(name, record.get(name))}
            most = max(map(len, paths), default=1)
            self.parts[name] = next(
                (n for n in range(1, most) if len({parts[-n:] for parts in paths}) == len(paths)), most
            )

    def shorten(self, record: Mapping[str, Any]) -> dict[str, Any]:
        shortened: dict[str, Any] = {}
        for name, value in record.items():
            if name == "sha256" and value:
                shortened[name] = str(value)[:8]
            elif not _is_path(name, value):
                shortened[name] = value
            elif name in self.differing:
                shortened[name] = "/".join(Path(value).parts[-self.parts[name] :])
        return shortened


def _role(log: LogFile, role: str, texts: OptionTexts | None = None) -> str:
    """The model of a role with its arguments; several with commas."""
    return ", ".join(" ".join([model.model, *options(model.args, texts, role)]) for model in _models(log, role))


def _models(log: LogFile, role: str) -> list[RoleModel]:
    models = (log.header.eval.model_roles or {}).get(role, [])
    return models if isinstance(models, list) else [models]


def _newest(run: Run) -> tuple[str, str, bool, str, float]:
    header = run.log.header
    return header.eval.created, header.eval.eval_id, run.log.finished, header.completed_at, run.log.modified


def _mode(log: LogFile, same_task: LogGroup, texts: OptionTexts) -> str:
    """`mode` in the metadata, or the last step of the plan after those that not all evals of the task have."""
    metadata, steps = log.header.eval.metadata or {}, _steps(log)
    if "mode" in metadata or not steps:
        return redact(str(metadata.get("mode", DEFAULT)))
    differs = [step not in same_task.steps for step in steps[:-1]] + [True]
    return " + ".join(shown for shown, tells in zip(_steps(log, texts), differs, strict=True) if tells)


def _steps(log: LogFile, texts: OptionTexts | None = None) -> list[str]:
    """The steps of the plan with their arguments, without that with which Truthgym prepares every task."""
    steps = [(bare_name(step.solver), step.params_passed or {}) for step in log.header.plan.steps
             if step.solver not in PREPARE]  # fmt: skip
    own = [(name, {k: v for k, v in arguments.items() if k != ENTRANT}) for name, arguments in steps]
    return [" ".join([name, *options(arguments, texts, name)]) for name, arguments in own]
