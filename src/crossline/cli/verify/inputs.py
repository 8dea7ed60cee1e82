"""Receipts from files, the files of a pipeline's sources, and records that are looked for in them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.conditions.evaluation import lookup
from crossline.basics.errors import UsageError
from crossline.basics.streams.schema import StreamSpec
from crossline.basics.times import parse_instant_ms
from crossline.cli.verify.topics import CAME, STANDS, ReadTopic, read_topic
from crossline.io.files.patterns import matching_files
from crossline.serve.ledger.comparison import RecordPlace
from crossline.settings.config import PipelineConfig
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.sources import ApiSettings, FilesSettings, GeneratorSettings

RECEIPT_BYTES_MAX = 16 << 20
STANDARD_INPUT = "-"
_AFTER_MS = 60_000  # what was asked about may reach its topic a moment after the answer
_MADE_AT_ONCE = 10_000  # records of a generator


def read_receipt_file(name: str) -> dict[str, Any]:
    """The receipt in a file, or on the standard input. Raises UsageError if it is no JSON object."""
    try:
        if name == STANDARD_INPUT:
            data = sys.stdin.buffer.read(RECEIPT_BYTES_MAX + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(RECEIPT_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"receipt {name}: {error.strerror}; expected a file with one receipt as JSON") from None
    if len(data) > RECEIPT_BYTES_MAX:
        raise UsageError(f"receipt {name}: found more than {RECEIPT_BYTES_MAX:,} bytes; expected one receipt as JSON")
    try:
        # Of a name that stands twice readers may see either: no receipt has one.
        json.loads(data, object_pairs_hook=_once)
        found = orjson.loads(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"receipt {name}: found no JSON ({error}); expected one receipt as JSON") from None
    if not isinstance(found, dict):
        raise UsageError(f"receipt {name}: found a JSON {type(found).__name__}; expected one receipt, an object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for number, (name, _) in enumerate(pairs) if name in dict(pairs[:number]))
        raise ValueError(f"field {twice!r} appears twice in an object")
    return found


def topics_of(
    config: PipelineConfig,
    given: Mapping[str, Sequence[str]],
    folder: Path,
    receipt: Mapping[str, Any],
    note_progress: Callable[[str], None],
    *,
    then: bool,
) -> dict[str, ReadTopic]:
    """The topics that sources of a pipeline are, by stream, read into ``folder``; but for those of ``given``.

    ``then``: up to a minute after the receipt's answer. Raises as ``read_topic``.
    """
    try:
        answered_ms = parse_instant_ms(receipt["decision"].get("decided_at"))
    except (TypeError, ValueError):
        answered_ms = None
    until_ms = answered_ms + _AFTER_MS if then and answered_ms is not None else None
    return {
        stream: read_topic(stream, source, config.streams[stream], folder, answered_ms, until_ms, note_progress)
        for stream, source in config.sources.items()
        if isinstance(source, KafkaSourceSettings) and not given.get(stream)
    }


def inputs_of(
    config: PipelineConfig,
    given: Mapping[str, Sequence[str]],
    folder: Path,
    topics: Mapping[str, ReadTopic],
) -> dict[str, list[str]]:
    """The files that the sources of a pipeline are, by stream; those of ``given`` instead, where it names some.

    Records of a generator are made, into ``folder``. Raises UsageError if there are none.
    """
    found: dict[str, list[str]] = {}
    for stream, source in config.sources.items():
        if given.get(stream):
            found[stream] = list(given[stream])
        elif isinstance(source, FilesSettings | ApiSettings):
            if matching_files([source.path]):
                found[stream] = [source.path]
        elif isinstance(source, GeneratorSettings):
            found[stream] = [str(_made(stream, source, folder))]
        elif stream in topics:
            found[stream] = [str(topics[stream].path)]
    if not found:
        raise UsageError("found no records in the pipeline's sources; expected the log that the receipt is about")
    return found


def _made(stream: str, settings: GeneratorSettings, folder: Path) -> Path:
    from crossline.generate.source import read_source

    if settings.records is None:
        raise UsageError(f"the source of {stream} makes records without end; expected one with records: NUMBER")
    source = read_source({"workload": settings.workload, "records": settings.records, **settings.parameters()})
    path = folder / f"{stream}.jsonl"
    with path.open("wb") as file:
        for first in range(0, settings.records, _MADE_AT_ONCE):
            file.write(source.lines(first, _MADE_AT_ONCE))
    return path


def places_of(
    inputs: Mapping[str, Sequence[str]], streams: Mapping[str, StreamSpec], wanted: Mapping[str, Collection[str]]
) -> dict[str, dict[str, RecordPlace]]:
    """Where records stand, by stream and id: the first of each in the order of the log; of JSON lines alone."""
    found: dict[str, dict[str, RecordPlace]] = {}
    for stream, ids in wanted.items():
        spec, here = streams[stream], found.setdefault(stream, {})
        if spec.format != "json" or not ids or stream not in inputs:
            continue
        left = {record_id: plain_part(record_id) for record_id in ids}
        for name in matching_files(inputs[stream]):
            for at, line in _lines(Path(name)):
                if any(part in line for part in left.values()) and (document := _document(line)) is not None:
                    record_id = str(lookup(document, spec.id))
                    if left.pop(record_id, None) is not None:
                        here[record_id] = _place(name, at, document)
            if not left:
                break
    return found


def _place(name: str, at: int, document: dict[str, Any]) -> RecordPlace:
    """Where a line stands, or the record of a topic that it was."""
    document.pop(CAME, None)
    partition, _, offset = str(document.pop(STANDS, "")).rpartition(" ")
    digest = digest_of_record(document)
    if partition:
        return RecordPlace(partition, int(offset), digest, "offset")
    return RecordPlace(str(Path(name)), at, digest)


def digest_of_record(document: Mapping[str, Any]) -> str | None:
    """SHA-256 of a record as canonical JSON, in hex; None if it is too deep, or has numbers that are too large."""
    with suppress(TypeError):
        return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return None


def plain_part(record_id: str) -> bytes:
    """What a line with this id has, however it is written: the longest part without characters that JSON escapes."""
    plain = "".join(
        each if each.isascii() and each.isprintable() and each not in '"\\/<>&' else "\0" for each in record_id
    )
    return max(plain.split("\0"), key=len).encode()


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    at = 0
    with path.open("rb") as file:
        for line in file:
            yield at, line
            at += len(line)


def _document(line: bytes) -> dict[str, Any] | None:
    try:
        found = orjson.loads(line.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None
    return found if isinstance(found, dict) else None
