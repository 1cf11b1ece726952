"""Reads Inspect logs sample by sample, decoding only the parts that training and analysis need.

Most bytes of a sample are events, which are cut out before the rest is decoded into the types of `schema`. Inspect's
own reader is used for samples in older formats, one by one, and for .json logs, which it reads as a whole. A remote log
is copied to this machine while it is open. Inspect is imported only then: importing it takes more memory than
converting a log does.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from truthgym.evallog.archive import EvalArchive
from truthgym.evallog.errors import bad_input
from truthgym.evallog.header import Header, parse_header
from truthgym.evallog.schema import (
    AttachmentsRecord,
    EventsRecord,
    LoggedSample,
    Message,
    Outcome,
    OutcomeRecord,
    Record,
    SampleRecord,
    decode_json,
    outcome,
    sample,
)

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

FORMAT = 2
"""The version of the log format that `schema` describes."""
EVENTS, AFTER_EVENTS = b',"events":[', b'],"model_usage":{'
"""A sample's events and timelines are between these. No JSON string contains them: its quotation marks are escaped."""
ATTACHMENT_SCHEMES = ("attachment://", "tc://")
"""Prefixes of a reference to an attachment. Inspect used `tc://` before `attachment://`."""
CHUNKED = re.compile(r"^(samples/.*_epoch_\d+/)sample\.json$", re.DOTALL)
"""Name of the main member of a chunked sample. Its other members are in the same folder."""

AnyRecord = TypeVar("AnyRecord", bound=Record)


class LogReader:
    """Reads a log, sample by sample, in the order of the file.

        with LogReader("logs/run.eval") as log:
            good = [member for member, outcome in log.outcomes() if not outcome.error]
            for member, sample in log.samples(good):
                ...

    Args:
        path: An .eval or .json log, local or remote (s3://..., whatever fsspec can read).

    Raises:
        BadInput: The file does not exist, is not a log or is incomplete; while reading, a sample is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._fallbacks: dict[str, str] = {}
        self._copy: tempfile.TemporaryDirectory[str] | None = None
        self._archive: EvalArchive | None = None
        try:
            self._local = self._local_file()
            if self._local.suffix != ".json":
                self._archive = EvalArchive(self._local, self.path)
            self.header = parse_header(self._local, self._archive, self.path)
        except BaseException:
            self.close()
            raise
        self._outcomes = msgspec.json.Decoder(OutcomeRecord)
        self._samples = msgspec.json.Decoder(SampleRecord)

    @cached_property
    def members(self) -> list[str]:
        """Names of the samples in this log, in its order."""
        names = list(self._json_samples) if self._archive is None else self._archive.names
        names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        chunked = {match[1] for name in names if (match := CHUNKED.match(name))}
        if not chunked:
            return names
        return [name for name in names if CHUNKED.match(name) or not _folders(name) & chunked]

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _order(self) -> dict[str, int]:
        return {member: i for i, member in enumerate(self.members)}

    @property
    def fallbacks(self) -> Counter[str]:
        """Number of samples read so far that needed Inspect's own reader, by reason."""
        return Counter(self._fallbacks.values())

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """All samples without their messages, each with its member name."""
        for member in self.members:
            yield member, outcome(self._read(member, self._outcomes)[0])

    def samples(self, members: Collection[str] | None = None) -> Iterator[tuple[str, LoggedSample]]:
        """Samples with their messages, each with its member name.

        Args:
            members: Names of the samples to read, as `outcomes` gives them. None reads all.
        """
        for member in self.members if members is None else sorted(members, key=self._order.__getitem__):
            record, content = self._read(member, self._samples)
            yield member, _resolve(record, content)

    def close(self) -> None:
        if self._archive:
            self._archive.close()
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
                raise bad_input(f"There is no file {self.path}; give an .eval log")
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

    def _read(self, member: str, decoder: msgspec.json.Decoder[AnyRecord]) -> tuple[AnyRecord, bytes]:
        """Decode a sample. Also returns its bytes in the current format, from which attachments can be read."""
        if self._archive is None:
            return self._convert(member, self._json_samples[member], "log as .json", decoder)
        if chunked := CHUNKED.match(member):
            content = _join_chunks(self._archive, chunked[1], with_messages=decoder.type is SampleRecord)
        else:
            content = self._archive.read(member)
        if self.header.version != FORMAT:
            reason = f"log format {self.header.version}"
        elif (record := _decode(content, decoder)) is None:
            reason = "unknown schema"
        elif record.uuid is None:
            reason = "written by Inspect before 0.3.70"
        else:
            return record, content
        return self._convert(member, self._validate(member, content), reason, decoder)

    def _validate(self, member: str, content: bytes) -> "EvalSample":
        """Parse a sample with Inspect, which reads its older formats."""
        from inspect_ai.log import EvalSample

        try:
            return EvalSample.model_validate(json.loads(content))
        except ValueError as error:
            reason = str(error).partition("\n")[0]
            raise bad_input(
                f"{self.path}: Inspect cannot read its member {member} ({reason}); check that it is not damaged"
            ) from None

    def _convert(
        self, member: str, parsed: "EvalSample", reason: str, decoder: msgspec.json.Decoder[AnyRecord]
    ) -> tuple[AnyRecord, bytes]:
        """Convert a sample that Inspect parsed to the current format and decode it."""
        self._fallbacks[member] = reason
        content = parsed.model_dump_json(exclude_none=True, exclude={"timelines"}).encode()
        record = _decode(content, decoder)
        if record is None:
            raise bad_input(
                f"{self.path}: its member {member} has an unknown schema; remove the sample, or convert other logs"
            )
        return record, content

    @cached_property
    def _json_samples(self) -> "dict[str, EvalSample]":
        """The samples of a .json log by the names that they would have in an .eval log."""
        from inspect_ai.log import read_eval_log

        log = read_eval_log(str(self._local))
        return {f"samples/{sample.id}_epoch_{sample.epoch}.json": sample for sample in log.samples or []}


def read_header(path: str | Path) -> Header:
    """Read the header of a log alone.

    Raises:
        BadInput: The file does not exist, is not a log or is incomplete.
    """
    with LogReader(path) as log:
        return log.header


def _decode(content: bytes, decoder: msgspec.json.Decoder[AnyRecord]) -> AnyRecord | None:
    """Decode a sample without its events. None if it has another schema.

    If metadata or the store hold fields of the names that delimit the events, the cut leaves malformed JSON, or JSON
    without the uuid, which follows the events. In that case the whole sample is decoded.
    """
    record: AnyRecord | None = None
    for part in (_without_events(content), content):
        try:
            record = decode_json(part, decoder)
        except (ValueError, msgspec.ValidationError):
            record = None
        if record is not None and record.uuid:
            break
    return record


def _without_events(content: bytes) -> bytes:
    start, end = content.find(EVENTS), content.rfind(AFTER_EVENTS)
    return content[: start + len(EVENTS)] + content[end:] if 0 <= start < end else content


def _resolve(record: SampleRecord, content: bytes) -> LoggedSample:
    """The full sample: with its attachments, and with its tools if it called one."""
    if isinstance(record.input, str) and _are_texts(record.messages):
        return sample(record, None)
    end = content.find(EVENTS)
    head = content if end < 0 else content[:end]
    calls_tools = any(message.tool_calls for message in record.messages)
    if not calls_tools and not any(scheme.encode() in head for scheme in ATTACHMENT_SCHEMES):
        return sample(record, None)
    rest = decode_json(content, msgspec.json.Decoder(EventsRecord if calls_tools else AttachmentsRecord))
    record.messages = _with_attachments(record.messages, rest.attachments)
    if not isinstance(record.input, str):
        record.input = _with_attachments(record.input, rest.attachments)
    return sample(record, _with_attachments(rest.tools, rest.attachments) if isinstance(rest, EventsRecord) else None)


def _are_texts(messages: list[Message]) -> bool:
    """Whether all messages are plain texts, so that there is nothing to resolve."""
    for message in messages:
        content = message.content
        if not isinstance(content, str) or message.tool_calls or content.startswith(ATTACHMENT_SCHEMES):
            return False
    return True


def _with_attachments(value: Any, attachments: dict[str, str]) -> Any:  # noqa: ANN401
    """A value with references replaced by their attachments. A reference without an attachment stays."""
    if isinstance(value, str):
        scheme, separator, key = value.partition("://")
        return attachments.get(key, value) if separator and f"{scheme}://" in ATTACHMENT_SCHEMES else value
    if isinstance(value, list):
        return [_with_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: _with_attachments(item, attachments) for key, item in value.items()}
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            setattr(value, name, _with_attachments(getattr(value, name), attachments))
    return value


def _join_chunks(archive: EvalArchive, folder: str, with_messages: bool) -> bytes:
    """A chunked sample as one JSON document. Inspect writes very large samples in chunks and has no public reader.

    `sample.json` holds the small fields, and the ranges of the message chunks that make up the conversation.
    """

    def items(kind: str) -> list[Any]:
        found: list[Any] = []
        # A chunk is named by the index of its first item.
        while (name := f"{folder}{kind}/{len(found)}.json") in archive:
            found += json.loads(archive.read(name)) or [None]
        return found

    joined: dict[str, Any] = json.loads(archive.read(f"{folder}sample.json"))
    if (name := f"{folder}metadata.json") in archive:
        joined["metadata"] = json.loads(archive.read(name))
    ranges = joined.pop("message_refs", [])
    if with_messages:
        messages = items("messages")
        joined["messages"] = [message for start, end in ranges for message in messages[start:end]]
        joined["attachments"] = {str(i): text for i, text in enumerate(items("attachments"))}
        joined["events"] = items("events")
    return json.dumps(joined).encode()


def _folders(name: str) -> set[str]:
    """All folders that contain a member."""
    return {name[: end + 1] for end, letter in enumerate(name) if letter == "/"}
