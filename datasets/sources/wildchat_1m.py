"""WildChat-1M: first messages that people sent to ChatGPT, filtered while they stream by. A source of `wildchat`."""

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from truthgym.datasets.errors import BadInput, one_of, validate_call
from truthgym.datasets.loading.domain import Record, Skipped, keep_rows
from truthgym.datasets.loading.download import FALLBACK, parquet_files
from truthgym.datasets.loading.row_files import Row, RowFilter, open_parquet

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet

REPOSITORY = "allenai/WildChat-1M"
REVISION = "7d6490e462285cf85d91eabea0f9a954fbddcd1f"
SHARDS = 14
"""Parquet files at that revision, about 240 MB each and 3.4 GB in all."""
LICENCE = (
    "WildChat-1M, the first messages of 837,989 conversations with ChatGPT (Zhao and others, Allen Institute for AI), "
    f"ODC-BY 1.0, https://huggingface.co/datasets/{REPOSITORY} at {REVISION}."
)
COLUMNS = "conversation_hash model timestamp conversation turn language toxic redacted country".split()  # noqa: SIM905
OF_A_TURN = ("content", "role", "language")
"""Fields of a turn to read. Addresses, browsers and moderation scores are never read."""
BATCH = 500
OPENING = 200
"""Messages that agree in this many first letters are near copies."""
LANGUAGES = """Afrikaans Albanian Arabic Armenian Azerbaijani Basque Belarusian Bengali Bokmal Bosnian Bulgarian Catalan
Chinese Croatian Czech Danish Dutch English Esperanto Estonian Finnish French Ganda Georgian German Greek Gujarati
Hebrew Hindi Hungarian Icelandic Indonesian Irish Italian Japanese Kazakh Korean Latin Latvian Lithuanian Macedonian
Malay Maori Marathi Mongolian Nynorsk Persian Polish Portuguese Punjabi Romanian Russian Serbian Shona Slovak Slovene
Somali Sotho Spanish Swahili Swedish Tagalog Tamil Telugu Thai Tsonga Tswana Turkish Ukrainian Urdu Vietnamese Welsh
Xhosa Yoruba Zulu""".split()  # noqa: SIM905
"""The language names of WildChat's detector (lingua)."""
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{_CJK}]|[^\s{_CJK}\u3000-\u303f\uff00-\uff0f\uff1a-\uff20]+")
_NO_LETTER = re.compile(r"[\W\d_]+")


AtLeastOne = Annotated[int, Field(ge=1)]


@validate_call
def message_filter(
    language: str | Sequence[str] | None = None,
    min_words: AtLeastOne = 1,
    max_words: AtLeastOne | None = None,
    min_turns: AtLeastOne = 1,
    max_turns: AtLeastOne | None = None,
) -> RowFilter:
    """Build a filter of rows from options that `wildchat_1m` documents."""
    for name, least, most in (("words", min_words, max_words), ("turns", min_turns, max_turns)):
        if most is not None and most < least:
            raise BadInput(f"wildchat: max_{name}={most} cannot be used; give at least min_{name}={least}")
    languages = _names(language)

    def reason(row: dict[str, Any]) -> str | None:
        if languages and row.get("language") not in languages:
            return "in other languages"
        if (min_turns, max_turns) != (1, None):
            turns = row.get("turns")
            if not isinstance(turns, int):
                return "with no number of turns"
            if turns < min_turns or (max_turns is not None and turns > max_turns):
                return "with fewer or more turns"
        if (min_words, max_words) != (1, None):
            words = len(_WORD.findall(str(row.get("message", ""))))
            if words < min_words or (max_words is not None and words > max_words):
                return "with fewer or more words"
        return None

    return reason


@validate_call
def wildchat_1m(
    skipped: Skipped,
    known_after: date | None,
    *,
    language: str | Sequence[str] | None = None,
    min_words: AtLeastOne = 1,
    max_words: AtLeastOne | None = None,
    min_turns: AtLeastOne = 1,
    max_turns: AtLeastOne | None = None,
    toxic: bool = False,
    redacted: bool = False,
    shards: int | str | Sequence[int | str] | None = None,
    location: str | None = None,
) -> Iterator[Row]:
    """Read the first messages of WildChat-1M, file by file and a batch of conversations at a time."""
    reason_to_drop = message_filter(language, min_words, max_words, min_turns, max_turns)
    for name in _names(language):
        one_of("language", name, LANGUAGES)
    return keep_rows(_messages(_files(location, shards), reason_to_drop, toxic, redacted), skipped)


def event_of(message: str) -> str:
    """The event of a message: the same for messages that begin with the same 200 letters."""
    opening = message.strip()[: 2 * OPENING]
    letters = _NO_LETTER.sub("", unicodedata.normalize("NFKC", opening).casefold())[:OPENING]
    return f"wildchat-opening-{_hash(letters or opening)}"


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _names(names: str | Sequence[str] | None) -> list[str]:
    texts = [names] if isinstance(names, str) else [] if names is None else names
    return [name.strip() for text in texts for name in text.split(",")]


def _files(location: str | None, shards: int | str | Sequence[int | str] | None) -> list[Callable[[], Path]]:
    names = [f"data/train-{number:05d}-of-{SHARDS:05d}.parquet" for number in range(SHARDS)]
    files = parquet_files("wildchat_1m", REPOSITORY, REVISION, names, location)
    if shards is None:
        return files
    listed = shards.split(",") if isinstance(shards, str) else [shards] if isinstance(shards, int) else shards
    numbers = [int(shard) if isinstance(shard, str) and shard.strip().isdecimal() else shard for shard in listed]
    if not all(number in range(len(files)) for number in numbers):
        raise BadInput(f"wildchat_1m: shards={shards!r} cannot be used; give whole numbers from 0 to {len(files) - 1}")
    return [file for number, file in enumerate(files) if number in numbers]


def _messages(
    files: Iterable[Callable[[], Path]], reason_to_drop: RowFilter, toxic: bool, redacted: bool
) -> Iterator[Record]:
    seen: set[int] = set()
    for file in files:
        path = file()
        for number, conversation in enumerate(_conversations(path), start=1):
            row = {
                "message": conversation["content"],
                "language": conversation["language"],
                "known_on": conversation["timestamp"] and conversation["timestamp"].isoformat(),
                "model": conversation["model"],
                "turns": conversation["turn"],
                "country": conversation["country"],
                "conversation_hash": conversation["conversation_hash"],
            }
            reason = _unusable(conversation, toxic, redacted) or reason_to_drop(row)
            if reason is None:
                # Not `conversation_hash`, which differs between conversations with the same first message.
                digest = _hash(row["message"].strip())
                reason = "with a repeated message" if int(digest, 16) in seen else None
                seen.add(int(digest, 16))
                row |= {"id": f"wildchat-{digest}", "event": event_of(row["message"])}
            yield f"{path.name} row {number}", reason or row


def _unusable(conversation: dict[str, Any], toxic: bool, redacted: bool) -> str | None:
    if not toxic and conversation["toxic"] is not False:
        return "toxic, or not rated"
    if not redacted and conversation["redacted"] is not False:
        return "redacted, or not known to be whole"
    if not (conversation["content"] or "").strip():
        return "empty"
    if conversation["role"] != "user":
        return "not begun by the user"
    return None if conversation["language"] else "of no known language"


def _conversations(path: Path) -> Iterator[dict[str, Any]]:
    """Read the needed columns of a file's conversations, each with the text, role and language of its first turn."""
    with open_parquet(path, f"delete {path.resolve()} to download it again, or {FALLBACK}") as file:
        for batch in file.iter_batches(BATCH, columns=_leaves(path, file), use_threads=False):
            yield from _first_turns(batch)


def _leaves(path: Path, file: "pyarrow.parquet.ParquetFile") -> list[str]:
    leaves = [file.schema.column(number).path for number in range(len(file.schema))]
    needed = {name: [leaf for leaf in leaves if leaf == name] for name in COLUMNS if name != "conversation"}
    for part in OF_A_TURN:  # the names between the two parts depend on the writer of the file
        needed[f"conversation.{part}"] = [
            leaf for leaf in leaves if leaf.startswith("conversation.") and leaf.endswith(f".{part}")
        ]
    missing = [name for name, leaves_of in needed.items() if len(leaves_of) != 1]
    if missing:
        raise BadInput(f"wildchat_1m: {path} lacks the columns {', '.join(missing)}; give the files of WildChat-1M")
    return [leaf for leaves_of in needed.values() for leaf in leaves_of]


def _first_turns(batch: "pyarrow.RecordBatch") -> list[dict[str, Any]]:
    import pyarrow
    import pyarrow.compute as compute

    conversation = batch.column("conversation")
    starts = conversation.offsets.slice(0, len(batch))
    not_empty = compute.greater(compute.fill_null(compute.list_value_length(conversation), 0), 0)
    first = conversation.values.take(compute.if_else(not_empty, starts, pyarrow.scalar(None, starts.type)))
    columns = {name: batch.column(name) for name in COLUMNS if name != "conversation"}
    columns["timestamp"] = columns["timestamp"].cast(pyarrow.date32())
    texts = {part: compute.struct_field(first, part) for part in OF_A_TURN}
    texts["language"] = compute.coalesce(texts["language"], columns["language"])
    turns: list[dict[str, Any]] = pyarrow.RecordBatch.from_pydict(columns | texts).to_pylist()
    return turns
