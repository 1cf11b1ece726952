"""Reads Inspect logs sample by sample, decoding only the parts that training and analysis need.

Most bytes of a sample are events, which are cut out before the rest is decoded into the types of `schema`. Samples in
older formats are upgraded by Inspect, one by one, and remote logs are copied to this machine. Inspect is imported only
then: importing it takes more memory than converting a log does.
"""

import json
import logging
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import Raw

from truthgym.evallog.archive import EvalArchive
from truthgym.evallog.errors import MALFORMED, bad_input
from truthgym.evallog.header import Results, ScorerResults, parse_header, with_newest
from truthgym.evallog.schema import (
    Attachments,
    Events,
    LoggedSample,
    LoggedScore,
    Outcome,
    RawAttachments,
    SampleList,
    SampleName,
    decode_json,
)

FORMAT = 2
"""The version of the log format that `schema` describes."""
EVENTS, AFTER_EVENTS = b',"events":[', b'],"model_usage":{'
"""A sample's events and timelines are between these. No JSON string contains them: its quotation marks are escaped."""
SCHEMES, REFERENCES = ("attachment", "tc"), (b'"att', b'"tc:')
"""Schemes of references to an attachment, and how a text of one begins. Inspect used `tc` before `attachment`."""
CHUNKED = re.compile(r"^(samples/.*_epoch_\d+/)sample\.json$", re.DOTALL)
"""Name of the main member of a chunked sample. Its other members are in the same folder."""

UNFINISHED = {"started": "did not finish", "cancelled": "was cancelled", "error": "ended in an error"}
"""What became of a run that has another status than `success`."""

AnyOutcome = TypeVar("AnyOutcome", bound=Outcome)


class LogReader:
    """Reads an .eval or .json log, local or remote, sample by sample, in the order of the file.

    Samples that were invalidated are left out, of the header's results too. If a scorer scored the log more than once
    with the same options and judges, its name stands for the newest of these scores. No file is open between two
    readings; `close` removes the copy of a remote log.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._fallbacks: dict[str, str] = {}
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._local = self._local_file()
        self._archive = None if self._local.suffix == ".json" else EvalArchive(self._local, self.path)
        self.header = parse_header(self._local, self._archive, self.path)
        self._outcomes = msgspec.json.Decoder(Outcome)
        self._samples = msgspec.json.Decoder(LoggedSample)
        if self.header.invalidated and self.header.results:
            self.header.results.scores = self._valid_scores(self.header.results)

    @cached_property
    def members(self) -> list[str]:
        """Names of the samples by id and epoch. In the log they are in the order in which they ended."""
        names = list(self._json_samples) if self._archive is None else self._archive.names
        names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        names.sort(key=_id_and_epoch)
        chunked = tuple({match[1] for name in names if (match := CHUNKED.match(name))})
        return [name for name in names if CHUNKED.match(name) or not name.startswith(chunked)]

    @cached_property
    def judges(self) -> dict[str, str]:
        """The judges of scores that passes with the same options gave by other judges, by the scores' names."""
        names: dict[str, list[str]] = {}
        for newer, name in self.header.rescored.items():
            names.setdefault(name, [name]).append(newer)
        differ = (group for group in names.values() if len({self._judged.get(name) for name in group}) > 1)
        return {name: self._judged[name] for group in differ for name in group}

    @cached_property
    def _judged(self) -> dict[str, str]:
        """The judges of repeated scores, of the first sample that has them all. The header does not hold them."""
        repeated = self.header.rescored
        names = {*repeated, *repeated.values()}
        with self._archive or nullcontext():
            for member in self.members if repeated else ():
                scores = self._read(member, self._outcomes)[0].scores or {}
                if names <= scores.keys():
                    return {name: _judges(scores[name]) for name in names}
        return {}

    @cached_property
    def rescored(self) -> dict[str, str]:
        """Names of scores that repeat an earlier one by the same judges, with the name of that one."""
        first: dict[tuple[str, str], str] = {}
        rescored = {}
        for newer, name in self.header.rescored.items():
            first.setdefault((name, self._judged.get(name, "")), name)
            earlier = first.setdefault((name, self._judged.get(newer, "")), newer)
            if earlier != newer:
                rescored[newer] = earlier
        return rescored

    @cached_property
    def invalidated(self) -> int:
        return len(self) - sum(1 for _ in self.outcomes()) if self.header.invalidated else 0

    @cached_property
    def omissions(self) -> list[str]:
        """What of the run is not in its figures, in whole sentences: why it did not finish, and invalidated samples."""
        spec, status = self.header.eval, self.header.status
        asked = f"{spec.asked * (spec.config.epochs or 1):,}"
        sentences = []
        if status != "success":
            sentences.append(f"The run {UNFINISHED[status]}: {len(self):,} of its {asked} samples are in the log.")
        if self.invalidated:
            sentences.append(f"{self.invalidated:,} of {len(self):,} samples were invalidated, and are left out.")
            if self.header.results and not self.header.results.scores:
                sentences[-1] += " The log's metrics count them and cannot be computed without them: none is shown."
        return sentences

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _order(self) -> dict[str, int]:
        return {member: i for i, member in enumerate(self.members)}

    @property
    def fallbacks(self) -> Counter[str]:
        """Number of samples read so far that needed Inspect's own reader, by reason."""
        return Counter(self._fallbacks.values())

    def outcomes(self, invalidated: bool = False) -> Iterator[tuple[str, Outcome]]:
        """All samples without their messages, each with its member name; with `invalidated`, those too."""
        self.rescored  # noqa: B018  # read before the archive is open
        with self._archive or nullcontext():
            for member in self.members:
                outcome, _, content = self._read(member, self._outcomes)
                if b"://" in bytes(outcome.input):
                    content = self._content(member, with_messages=True) if CHUNKED.match(member) else content
                    texts = decode_json(content, msgspec.json.Decoder(RawAttachments)).attachments
                    outcome.input = Raw(
                        msgspec.json.encode(_with_attachments(msgspec.json.decode(outcome.input), texts))
                    )
                if invalidated or outcome.invalidation is None:
                    yield member, self._with_newest_scores(outcome)

    def samples(
        self, members: Collection[str] | None = None, invalidated: bool = False
    ) -> Iterator[tuple[str, LoggedSample]]:
        """Samples with their messages, each with its member name: those named in `members`, or all as in `outcomes`."""
        self.rescored  # noqa: B018  # read before the archive is open
        with self._archive or nullcontext():
            for member in self.members if members is None else sorted(members, key=self._order.__getitem__):
                sample, head, content = self._read(member, self._samples)
                if invalidated or members is not None or sample.invalidation is None:
                    yield member, self._with_newest_scores(self._sample(sample, head, content))

    def close(self) -> None:
        if self._copy:
            self._copy.cleanup()

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _local_file(self) -> Path:
        """The file on this machine. A remote file is copied."""
        if "://" not in self.path:
            if not Path(self.path).is_file():
                link = " (a link to nothing)" * Path(self.path).is_symlink()
                raise bad_input(f"There is no file {self.path}{link}; give an .eval log")
            return Path(self.path)
        import fsspec

        self._copy = tempfile.TemporaryDirectory(prefix="truthgym-log-")
        local = Path(self._copy.name, "log" + Path(self.path).suffix)
        try:
            file_system, remote = fsspec.url_to_fs(self.path)
            file_system.get_file(remote, str(local))
        except Exception as error:  # whatever the file system raises
            raise bad_input(
                f"{self.path} cannot be read ({type(error).__name__}: {error}); check that it exists"
            ) from None
        return local

    def _read(self, member: str, decoder: msgspec.json.Decoder[AnyOutcome]) -> tuple[AnyOutcome, bytes, bytes]:
        """Decode a sample. Also returns its JSON in the current format, without its events and with them."""
        content = self._content(member, with_messages=decoder.type is LoggedSample)
        sample, head = _decode(content, decoder)
        if self.header.version != FORMAT:
            self._fallbacks[member] = f"log format {self.header.version}"
        elif sample is None:
            self._fallbacks[member] = "unknown schema"
        elif sample.uuid is None:
            self._fallbacks[member] = "written by Inspect before 0.3.70"
        else:
            return sample, head, content
        content = self._upgraded(member, content)
        sample, head = _decode(content, decoder)
        if sample is None:
            raise bad_input(
                f"{self.path}: its member {member} has an unknown schema; remove the sample, or convert other logs"
            )
        return sample, head, content

    def _valid_scores(self, results: Results) -> list[ScorerResults]:
        """The metrics without the invalidated samples, computed by Inspect; none if it lacks a scorer's package."""
        from inspect_ai.log import read_eval_log, recompute_metrics

        log = read_eval_log(str(self._local), exclude_fields={"events", "attachments", "messages", "store"})
        log.samples = [sample for sample in log.samples or [] if sample.invalidation is None]
        disabled = logging.root.manager.disable
        logging.disable(logging.WARNING)  # what a scorer says of a run stands in its own log
        try:
            recompute_metrics(log)
        except Exception:  # whatever a registry or a metric of another project raises
            return []
        finally:
            logging.disable(disabled)
        scores = [score.model_dump(mode="json") for score in log.results.scores] if log.results else []
        results.total_samples, results.completed_samples = len(log.samples), sum(not s.error for s in log.samples)
        return msgspec.convert(scores, list[ScorerResults])

    def _with_newest_scores(self, sample: AnyOutcome) -> AnyOutcome:
        if self.rescored and sample.scores:
            sample.scores = with_newest(sample.scores, self.rescored)
        return sample

    def _content(self, member: str, with_messages: bool) -> bytes:
        if self._archive is None:
            return self._json_samples[member]
        if chunked := CHUNKED.match(member):
            return _join_chunks(self._archive, chunked[1], with_messages)
        return self._archive.read(member)

    def _upgraded(self, member: str, content: bytes) -> bytes:
        """A sample in the current format, by Inspect, which reads its older formats."""
        from inspect_ai.log import EvalSample

        try:
            sample = EvalSample.model_validate(json.loads(content))
        except MALFORMED as error:
            reason = str(error).partition("\n")[0]
            raise bad_input(
                f"{self.path}: Inspect cannot read its member {member} ({reason}); check that it is not damaged"
            ) from None
        return sample.model_dump_json(exclude_none=True, exclude={"timelines"}).encode()

    def _sample(self, sample: LoggedSample, head: bytes, content: bytes) -> LoggedSample:
        """The full sample: with its attachments, and with its tools if it called one."""
        sample.plain, refers = True, False
        for message in sample.messages:
            start = bytes(memoryview(message.content)[:4])
            sample.plain = sample.plain and start[:1] == b'"' and not message.tool_calls
            refers = refers or start in REFERENCES or (start[:1] != b'"' and b"://" in bytes(message.content))
        if refers or b"://" in bytes(sample.input):
            attachments = decode_json(content, msgspec.json.Decoder(Attachments)).attachments
            resolved = _with_attachments(decode_json(head, msgspec.json.Decoder()), attachments)
            sample, plain = self._samples.decode(msgspec.json.encode(resolved)), sample.plain
            sample.plain = plain
        if not sample.plain and any(message.tool_calls for message in sample.messages):
            events = decode_json(content, msgspec.json.Decoder(Events))
            sample.tools = _with_attachments(events.tools, events.attachments)
        return sample

    @cached_property
    def _json_samples(self) -> dict[str, bytes]:
        """The samples of a .json log by the names that they would have in an .eval log."""
        samples = decode_json(self._local.read_bytes(), msgspec.json.Decoder(SampleList)).samples
        try:
            names = [msgspec.json.decode(sample, type=SampleName) for sample in samples]
        except msgspec.ValidationError as error:
            raise bad_input(f"{self.path}: a sample has no id or epoch ({error}); copy the log again") from None
        return {
            f"samples/{name.id}_epoch_{name.epoch}.json": bytes(sample)
            for name, sample in zip(names, samples, strict=True)
        }


def _decode(content: bytes, decoder: msgspec.json.Decoder[AnyOutcome]) -> tuple[AnyOutcome | None, bytes]:
    """Decode a sample without its events, or whole where the cut leaves no sample, and return what was decoded."""
    sample: AnyOutcome | None = None
    start, end = content.find(EVENTS), content.rfind(AFTER_EVENTS)
    without = content[: start + len(EVENTS)] + content[end:] if 0 <= start < end else content
    for part in (without, content):
        try:
            if not part.isascii():
                part.decode()  # texts that stay encoded are not checked otherwise
            sample = decode_json(part, decoder)
            holders: list[Any] = [sample, *(sample.scores or {}).values()]
            if any(memoryview(holder.metadata)[0] not in b"{n" for holder in holders):
                raise TypeError("its metadata is no object")
        except MALFORMED:
            sample = None
        if sample is not None and sample.uuid:
            break
    return sample, part


def _with_attachments(value: Any, attachments: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """A value with references replaced by their attachments. A reference without an attachment stays."""
    if isinstance(value, str):
        scheme, _, key = value.partition("://")
        return attachments.get(key, value) if scheme in SCHEMES else value
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: _with_attachments(item, attachments) for key, item in value.items()}
    return value


def _join_chunks(archive: EvalArchive, folder: str, with_messages: bool) -> bytes:
    """A chunked sample as one JSON document. Inspect writes very large samples in chunks and has no public reader."""

    def items(kind: str) -> list[Any]:
        read: list[Any] = []
        # A chunk is named by the index of its first item.
        while (name := f"{folder}{kind}/{len(read)}.json") in archive:
            read += json.loads(archive.read(name)) or [None]
        return read

    joined: dict[str, Any] = json.loads(archive.read(f"{folder}sample.json"))
    if (name := f"{folder}metadata.json") in archive:
        joined["metadata"] = json.loads(archive.read(name))
    ranges = joined.pop("message_refs", [])
    if with_messages:
        messages = items("messages")
        joined["messages"] = [message for start, end in ranges for message in messages[start:end]]
        joined["attachments"] = {str(i): text for i, text in enumerate(items("attachments"))}
        joined["events"] = items("events")
    return msgspec.json.encode(joined)


def _id_and_epoch(name: str) -> tuple[str, int, str]:
    """Sorts names such as `samples/ID_epoch_N.json`."""
    match = re.fullmatch(r"(.*)_epoch_(\d+)(.*)", name, re.DOTALL)
    return (match[1], int(match[2]), match[3]) if match else (name, 0, "")


def _judges(score: LoggedScore) -> str:
    """The models that rated an answer, with commas; "" if the score names none."""
    records = score.details.get("judges") or []
    return ", ".join(sorted(str(record["judge"]) for record in records if "judge" in record))
