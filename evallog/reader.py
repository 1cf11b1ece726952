"""Inspect logs read for training: only what is needed is decoded, sample by sample, and what is unknown by Inspect.

Of a sample's bytes most are events, which training has no use for. They are cut out before the rest is decoded into
`logged`'s shapes. Samples in a shape of older versions of Inspect go through Inspect's own EvalSample, one by one. A
log as .json is read by Inspect as a whole, and one that lies elsewhere is copied to this machine for as long as it is
read. Inspect is imported only where it is needed: that takes more memory than all of the rest.
"""

import json
import re
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

import msgspec

from truthgym.evallog.archive import EvalMembers
from truthgym.evallog.elsewhere import Attached, Tooled, decoded_as, joined, resolved
from truthgym.evallog.errors import bad_input
from truthgym.evallog.header import Header, header_of
from truthgym.evallog.schema import (
    Facts,
    LoggedSample,
    LoggedScore,
    LoggedStep,
    Message,
    Outcome,
    OutcomeRecord,
    Part,
    Record,
    SampleRecord,
    outcome,
    sample,
)

if TYPE_CHECKING:
    from inspect_ai.log import EvalSample

__all__ = [
    "Facts",
    "Header",
    "LogReader",
    "LoggedSample",
    "LoggedScore",
    "LoggedStep",
    "Message",
    "Outcome",
    "Part",
    "read_header",
]

FORMAT = 2
"""The version of the log format that is known here."""
EVENTS, AFTER_EVENTS = b',"events":[', b'],"model_usage":{'
"""Between these lie a sample's events, and its timelines. No text can hold them: its quotation marks are escaped."""
TEXT_SCHEMES = ("attachment://", "tc://")
"""How a text begins that stands elsewhere in the sample; the second is the older."""
SCHEMES = tuple(scheme.encode() for scheme in TEXT_SCHEMES)
SHELL = re.compile(r"^(samples/.*_epoch_\d+/)sample\.json$", re.DOTALL)
"""The name of the main member of a sample in chunks; what else it has lies beside it."""

AnyRecord = TypeVar("AnyRecord", bound=Record)


class LogReader:
    """Read a log, sample by sample, in the order of the file.

        with LogReader("logs/run.eval") as log:
            good = [member for member, outcome in log.outcomes() if not outcome.error]
            for member, sample in log.samples(good):
                ...

    Args:
        path: An .eval or .json log, here or wherever fsspec can read (s3://...).

    Raises:
        BadInput: There is no such file, it is no log, or no complete one; while reading, a sample that is damaged.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self._fallen: dict[str, str] = {}
        self._copied: tempfile.TemporaryDirectory[str] | None = None
        self._zip: EvalMembers | None = None
        try:
            self._place = self._here()
            if self._place.suffix != ".json":
                self._zip = EvalMembers(self._place, self.path)
            self.header = header_of(self._place, self._zip, self.path)
        except BaseException:
            self.close()
            raise
        self._outcomes = msgspec.json.Decoder(OutcomeRecord)
        self._samples = msgspec.json.Decoder(SampleRecord)

    @cached_property
    def members(self) -> list[str]:
        """What the samples are called in this log, in its order."""
        names = list(self._by_inspect) if self._zip is None else self._zip.names
        names = [name for name in names if name.startswith("samples/") and name.endswith(".json")]
        chunked = {found[1] for name in names if (found := SHELL.match(name))}
        if not chunked:
            return names
        return [name for name in names if SHELL.match(name) or not _folders(name) & chunked]

    def __len__(self) -> int:
        return len(self.members)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {member: place for place, member in enumerate(self.members)}

    @property
    def fallbacks(self) -> Counter[str]:
        """Samples read so far that Inspect's own reader had to read, by reason."""
        return Counter(self._fallen.values())

    def outcomes(self) -> Iterator[tuple[str, Outcome]]:
        """All samples without what was said in them, each with its member."""
        for member in self.members:
            yield member, outcome(self._read(member, self._outcomes)[0])

    def samples(self, members: Collection[str] | None = None) -> Iterator[tuple[str, LoggedSample]]:
        """Samples with what was said in them, each with its member.

        Args:
            members: Which, by what `outcomes` calls them. None is all.
        """
        for member in self.members if members is None else sorted(members, key=self._places.__getitem__):
            record, content = self._read(member, self._samples)
            yield member, _in_full(record, content)

    def close(self) -> None:
        if self._zip:
            self._zip.close()
        if self._copied:
            self._copied.cleanup()

    def __enter__(self) -> "LogReader":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _here(self) -> Path:
        """The file on this machine, copied where it lies elsewhere."""
        if "://" not in self.path:
            if not Path(self.path).is_file():
                raise bad_input(f"There is no file {self.path}; give an .eval log")
            return Path(self.path)
        import fsspec

        self._copied = tempfile.TemporaryDirectory(prefix="truthgym-log-")
        place = Path(self._copied.name, "log" + Path(self.path).suffix)
        try:
            system, there = fsspec.url_to_fs(self.path)
            system.get_file(there, str(place))
        except Exception as error:  # what the file systems raise
            raise bad_input(f"{self.path} cannot be read ({type(error).__name__}: {error}); is it there?") from None
        return place

    def _read(self, member: str, decoder: msgspec.json.Decoder[AnyRecord]) -> tuple[AnyRecord, bytes]:
        """A sample, and its bytes in the format that is known here."""
        if self._zip is None:
            held, reason = self._by_inspect[member], "log as .json"
        elif member.endswith("/sample.json") and (found := SHELL.match(member)):
            content = joined(self._zip, found[1], decoder.type is SampleRecord)
            if record := _decoded(content, decoder):
                return record, content
            raise self._unknown(member)
        else:
            content = self._zip.read(member)
            record = _decoded(content, decoder) if self.header.version == FORMAT else None
            if record and record.uuid:
                return record, content
            known = f"log format {self.header.version}" if self.header.version != FORMAT else "unknown shape"
            reason = "written by Inspect before 0.3.70" if record else known
            held = self._validated(member, content)
        self._fallen[member] = reason
        for without in ({"timelines"}, {"timelines", "store"}):
            # A store may hold another project's Trajectory.
            content = held.model_dump_json(exclude_none=True, exclude=without).encode()
            if record := _decoded(content, decoder):
                return record, content
        raise self._unknown(member)

    def _validated(self, member: str, content: bytes) -> "EvalSample":
        """A sample as Inspect reads it, which knows its older formats."""
        from inspect_ai.log import EvalSample

        try:
            return EvalSample.model_validate(json.loads(content))
        except ValueError as error:
            first = str(error).partition("\n")[0]
            raise bad_input(f"{self.path}: Inspect cannot read its member {member} ({first}); is it damaged?") from None

    def _unknown(self, member: str) -> Exception:
        return bad_input(f"{self.path}: its member {member} is a sample of no known shape; convert the log without it")

    @cached_property
    def _by_inspect(self) -> "dict[str, EvalSample]":
        from inspect_ai.log import read_eval_log

        log = read_eval_log(str(self._place))
        return {f"samples/{sample.id}_epoch_{sample.epoch}.json": sample for sample in log.samples or []}


def read_header(path: str | Path) -> Header:
    """Read the header of a log alone.

    Raises:
        BadInput: There is no such file, it is no log, or no complete one.
    """
    with LogReader(path) as log:
        return log.header


def _without_events(content: bytes) -> bytes:
    start, end = content.find(EVENTS), content.rfind(AFTER_EVENTS)
    return content[: start + len(EVENTS)] + content[end:] if 0 <= start < end else content


def _decoded(content: bytes, decoder: msgspec.json.Decoder[AnyRecord]) -> AnyRecord | None:
    """Decode a sample, first without its events. None where it has another shape.

    If metadata or the store hold fields of the names by which events are found, the cut leaves JSON that is malformed,
    or without the uuid that stands after the events. Then all of it is decoded. Malformed to msgspec, but not to
    Inspect and Python, are NaN and Infinity, which scores may be.
    """
    record: AnyRecord | None = None
    for part in (_without_events(content), content):
        try:
            record = decoder.decode(part)
        except msgspec.DecodeError:
            try:
                record = msgspec.convert(json.loads(part), decoder.type)
            except (ValueError, msgspec.ValidationError):
                record = None
        if record is not None and record.uuid:
            break
    return record


def _in_full(record: SampleRecord, content: bytes) -> LoggedSample:
    """A sample with what was attached to it put back, and its tools where it called one."""
    if isinstance(record.input, str) and _are_plain(record.messages):
        return sample(record, None)
    end = content.find(EVENTS)
    head = content if end < 0 else content[:end]
    calls = any(message.tool_calls for message in record.messages)
    if not calls and not any(scheme in head for scheme in SCHEMES):
        return sample(record, None)
    more = decoded_as(Tooled if calls else Attached, content)
    record.messages = resolved(record.messages, more.attachments)
    if not isinstance(record.input, str):
        record.input = resolved(record.input, more.attachments)
    return sample(record, resolved(more.tools, more.attachments) if isinstance(more, Tooled) else None)


def _are_plain(messages: list[Message]) -> bool:
    """Whether they hold nothing but texts, for which no sample need be searched."""
    for message in messages:
        content = message.content
        if not isinstance(content, str) or message.tool_calls or content.startswith(TEXT_SCHEMES):
            return False
    return True


def _folders(name: str) -> set[str]:
    """All folders that a member lies in."""
    return {name[: end + 1] for end, letter in enumerate(name) if letter == "/"}
