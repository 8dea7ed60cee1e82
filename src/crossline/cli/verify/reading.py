"""Receipts from files, the files of a pipeline's sources, and records that are looked for in them."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import orjson

from crossline.connectors.files.names import matching_files
from crossline.core.basics.errors import UsageError
from crossline.core.conditions.holds import lookup
from crossline.core.settings.config import PipelineConfig
from crossline.core.settings.kafka import KafkaSourceSettings
from crossline.core.settings.sources import ApiSettings, FilesSettings, GeneratorSettings
from crossline.core.streams.schema import StreamSpec
from crossline.serve.ledger.comparing import RecordPlace

RECEIPT_BYTES_MAX = 16 << 20
STANDARD_INPUT = "-"
_MADE_AT_ONCE = 10_000  # records of a generator


def read_receipt_file(name: str) -> dict[str, Any]:
    """The receipt in a file, or on the standard input. Raises UsageError where it is no JSON object."""
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
        raise ValueError(f"field {twice!r} stands twice in an object")
    return found


def inputs_of(config: PipelineConfig, given: Mapping[str, Sequence[str]], folder: Path) -> dict[str, list[str]]:
    """The files that the sources of a pipeline are, by stream; those of ``given`` instead, where it names some.

    Records of a generator are made, into ``folder``. Raises UsageError where a source is no files.
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
        else:
            raise UsageError(_of_topic(stream, source))
    if not found:
        raise UsageError("found no records in the pipeline's sources; expected the log that the receipt is about")
    return found


def _of_topic(stream: str, source: object) -> str:
    topic = source.topic if isinstance(source, KafkaSourceSettings) else "of another system"
    return (
        f"the source of {stream} is topic {topic}: what it holds is needed as files. Write its records from the first "
        f"offset on to a file, one a line, partition by partition, and name it with --input {stream}=FILE; where the "
        "stream has no ingest_time field, the times at which the broker took records are not in such a file, and "
        "figures on that clock can differ"
    )


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
                        here[record_id] = RecordPlace(str(Path(name)), at, digest_of_record(document))
            if not left:
                break
    return found


def digest_of_record(document: Mapping[str, Any]) -> str | None:
    """SHA-256 of a record as canonical JSON, in hex; None where it is too deep, or has numbers that are too large."""
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
