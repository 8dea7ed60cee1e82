"""Reads sources backwards, to search for records.

It does not use the decoder, which takes a second to load. The rows are raw; the search compares their fields.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from crossline.backtest.record_search import SourceRecord
from crossline.basics.errors import SourceError
from crossline.basics.streams.schema import StreamSpec
from crossline.io.chunks import ChunkRef
from crossline.io.files.text import csv_header, read_text
from crossline.runtime.sources.positions import GENERATED_SHIFT

if TYPE_CHECKING:
    from crossline.generate.source import Generator
    from crossline.io.kafka.backward_reader import BackwardTopicReader

BOM = b"\xef\xbb\xbf"
LINE_BYTES_MAX = 1 << 20  # a longer one is a dead letter

Parse = Callable[[bytes], Any]


def json_record(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in ``raw``; None if it is no object."""
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        return None
    return document if isinstance(document, dict) else None


def lines_backwards(
    data: bytes, base: int, partition: str, parse: Parse, end: int | None = None
) -> Iterator[SourceRecord]:
    """The records in complete lines, the last first. Lines that are no record are skipped.

    ``base``: the offset of ``data``. ``end``: the offset at which reading starts, exclusive.
    """
    stop = len(data) if end is None else min(len(data), end - base)
    stop -= data[stop - 1 : stop] == b"\n"
    while stop > 0:
        start = data.rfind(b"\n", 0, stop) + 1
        if stop - start <= LINE_BYTES_MAX:
            fields = parse(data[start:stop].removeprefix(BOM) if base + start == 0 else data[start:stop])
            if fields is not None:
                yield SourceRecord(partition, base + start, fields)
        stop = start - 1


class ReverseFileReader:
    """Reads chunks of lines in files backwards, from the chunk that contains ``position`` to the first.

    Records of that file after ``position`` are skipped. If it is None, or in none of the chunks, all chunks are read.
    """

    def __init__(self, spec: StreamSpec, chunks: Sequence[ChunkRef], position: tuple[str, int] | None) -> None:
        self._spec = spec
        self._chunks = chunks
        self._position = position
        self.gone: list[str] = []

    def rows(self, ids: Collection[str]) -> Iterator[SourceRecord | None]:
        """Records, the last first."""
        first = self._first()
        for chunk in reversed(self._chunks[: first + 1]):
            try:
                here = self._position is not None and chunk is self._chunks[first]
                yield from self._of(chunk, ids, self._position[1] if here and self._position is not None else None)
            except (OSError, SourceError) as error:
                self.gone.append(str(error))
            yield None

    def _first(self) -> int:
        if self._position is not None:
            name, offset = self._position
            for number, chunk in enumerate(self._chunks):
                if chunk.place == name and self._has(chunk, offset):
                    return number
            self._position = None
        return len(self._chunks) - 1

    def _has(self, chunk: ChunkRef, offset: int) -> bool:
        return chunk.start <= offset < chunk.end

    def _of(self, chunk: ChunkRef, ids: Collection[str], last: int | None) -> Iterator[SourceRecord]:  # noqa: ARG002 - the Parquet reader filters by them
        """The records of a chunk up to offset ``last`` (None: all), the last first."""
        if chunk.fault is not None:
            return
        parse: Parse = json_record
        begin = chunk.start
        if self._spec.format == "csv":
            names, first = csv_header(chunk)
            parse, begin = csv_parser(names), max(begin, first)
        data = read_text(chunk)[begin - chunk.start :]
        newline = -1 if last is None else data.find(b"\n", max(0, last - begin))
        stop = None if newline < 0 else begin + newline + 1
        yield from lines_backwards(data, begin, chunk.place, parse, stop)


def csv_parser(names: list[str]) -> Parse:
    """A parser of lines of a file with this header: texts by name; an empty field is None."""

    def parse(raw: bytes) -> dict[str, Any] | None:
        try:
            texts = next(csv.reader([raw.decode().removesuffix("\r")]), [])
        except (UnicodeDecodeError, csv.Error):
            return None
        if len(texts) != len(names):
            return None
        return {name: text or None for name, text in zip(names, texts, strict=True)}

    return parse


RECORDS_PER_CALL = 2_000  # of a generator: each call costs as much as some hundred records


class ReverseGeneratorReader:
    """Reads a generator backwards: it generates the records again, in chunks of ``chunk_records``."""

    def __init__(
        self, name: str, source: Generator, chunk_records: int, position: tuple[str, int] | None, known: int
    ) -> None:
        """``known``: the number of records if ``position`` is None."""
        self._name = name
        self._source = source
        self._chunk = chunk_records
        self._position = position
        self._known = known
        self.gone: list[str] = []

    def rows(self, ids: Collection[str]) -> Iterator[SourceRecord | None]:  # noqa: ARG002 - all records are generated in any case
        """Records, the last first."""
        last = self._known - 1 if self._position is None else self._position[1] >> GENERATED_SHIFT
        for first, data in self._chunks(last // self._chunk):
            base = first << GENERATED_SHIFT
            stop = None
            if self._position is not None and first == self._position[1] >> GENERATED_SHIFT:
                at = self._position[1] - base
                stop = base + data.find(b"\n", at) + 1
            yield from lines_backwards(data, base, self._name, json_record, stop)
            yield None

    def _chunks(self, last: int) -> Iterator[tuple[int, bytes]]:
        """Chunks from number ``last`` down: the first record of each, and its lines. Several are generated per call."""
        at_once = max(1, RECORDS_PER_CALL // self._chunk)
        for end in range(last + 1, 0, -at_once):
            begin = max(0, end - at_once)
            made = self._source.lines(begin * self._chunk, (end - begin) * self._chunk).splitlines(keepends=True)
            for number in reversed(range(begin, end)):
                within = (number - begin) * self._chunk
                yield number * self._chunk, b"".join(made[within : within + self._chunk])


class ReverseKafkaReader:
    """Reads Kafka topics backwards; ``parse``: the parser of a message's value."""

    def __init__(self, back: BackwardTopicReader, parse: Parse = json_record) -> None:
        self._back = back
        self._parse = parse

    @property
    def gone(self) -> list[str]:
        """The offsets that the topics no longer have, one sentence each."""
        return self._back.gone

    def rows(self, ids: Collection[str]) -> Iterator[SourceRecord | None]:  # noqa: ARG002 - the id is known only once a value is read
        """Records, the last first."""
        for each in self._back.values():
            fields = self._parse(each[2]) if each is not None else None
            yield SourceRecord(each[0], each[1], fields) if each is not None and fields is not None else None
