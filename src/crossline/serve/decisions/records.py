"""Records as requests bring them, checked against their stream as the pipeline checks them."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import orjson

from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.decode import PlainForm, RecordLayout, decode_lines
from crossline.ingest.decode.clock import TIME_MS_END
from crossline.ingest.decode.json_faults import json_faults
from crossline.ingest.decode.reasons import RecordFault
from crossline.io.tokens.opening import decoder_of

PLACE = "request"  # what positions of records in a request are called


@dataclass(frozen=True, slots=True)
class CheckedRecord:
    """A record that fits its stream: its id, its JSON in one line, and its digest."""

    record_id: str
    raw: bytes
    digest: str


@dataclass(frozen=True, slots=True)
class RefusedRecord:
    """A record that does not fit: all its faults, of which its dead letter would have the first."""

    faults: tuple[RecordFault, ...]


@dataclass(slots=True)
class StreamRecords:
    """Checks records by the ``streams`` of a pipeline; of those, JSON alone can be asked about."""

    streams: Mapping[str, StreamSpec]
    _layouts: dict[str, RecordLayout] = field(default_factory=dict)
    _forms: dict[str, PlainForm | None] = field(default_factory=dict)

    def __contains__(self, stream: str) -> bool:
        return stream in self.streams

    def check(self, stream: str, bodies: Sequence[bytes], now_ms: int) -> list[CheckedRecord | RefusedRecord]:
        """Each of ``bodies``, one JSON document each, in their order. ``now_ms``: epoch milliseconds.

        Raises KeyError if there is no such stream.
        """
        lines = [one_line(body) for body in bodies]
        form = self._form(stream)
        plain = [None if form is None else form.read(line, now_ms) for line in lines]
        if None not in plain:
            pairs = zip(lines, plain, strict=True)
            return [
                CheckedRecord(each[0], line, digest_of_document(each[1])) for line, each in pairs if each is not None
            ]
        return self._checked(stream, lines, now_ms)

    def _checked(self, stream: str, lines: Sequence[bytes], now_ms: int) -> list[CheckedRecord | RefusedRecord]:
        """As the pipeline checks them: that is what counts, and where refusals come from."""
        # The first line is blank: a byte order mark is skipped at the start of a file, and belongs to no request.
        ends = list(accumulate((len(line) + 1 for line in lines), initial=1))[1:]
        decoded = decode_lines(self._layout(stream), b"\n" + b"\n".join(lines), PLACE, 0, known_ms=now_ms)
        found: list[CheckedRecord | RefusedRecord] = [
            RefusedRecord((RecordFault("malformed_json", "nothing", "a JSON object"),))
        ] * len(lines)
        for offset, record_id in zip(decoded.records.offsets.tolist(), decoded.records.ids.to_pylist(), strict=True):
            number = bisect_right(ends, offset)
            try:
                found[number] = CheckedRecord(record_id, lines[number], digest_of(lines[number]))
            except (orjson.JSONDecodeError, orjson.JSONEncodeError) as error:
                found[number] = RefusedRecord((RecordFault("malformed_json", str(error)),))
        for letter in decoded.dead:
            number = bisect_right(ends, letter.offset)
            found[number] = RefusedRecord(self._faults(stream, lines[number], now_ms))
        return found

    def _faults(self, stream: str, line: bytes, now_ms: int) -> tuple[RecordFault, ...]:
        layout = self._layout(stream)
        faults = json_faults(layout, line, now_ms)
        if layout.tokens is None:
            return faults
        # That a field is not there quotes nothing of the record.
        return tuple(dict.fromkeys(each if each.lack else each.withheld() for each in faults))

    def fields(self, stream: str, raw: bytes) -> dict[str, Any]:
        """The fields of a record that fits, by their dotted names, as Python values; times are epoch milliseconds."""
        records = decode_lines(self._layout(stream), raw, PLACE, 0).records
        return {name: column[0].as_py() for name, column in records.fields.items()}

    def event_ms(self, stream: str, raw: bytes) -> int:
        """The event time of a record that fits."""
        form = self._form(stream)
        plain = None if form is None else form.read(raw, TIME_MS_END)
        if form is not None and plain is not None:
            return form.event_ms(plain[1])
        return int(decode_lines(self._layout(stream), raw, PLACE, 0).records.event_ms[0])

    def _form(self, stream: str) -> PlainForm | None:
        if stream not in self._forms:
            self._forms[stream] = PlainForm.of(self._layout(stream))
        return self._forms[stream]

    def _layout(self, stream: str) -> RecordLayout:
        found = self._layouts.get(stream)
        if found is None:
            found = self._layouts[stream] = decoder_of(stream, self.streams[stream])
        return found


def one_line(body: bytes) -> bytes:
    """The same JSON without an end of line: within a document one can only stand where a blank may."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ").strip()


def digest_of(raw: bytes) -> str:
    """SHA-256, in hex, of a JSON document with its keys sorted and its blanks gone: equal for equal records.

    Raises orjson.JSONDecodeError or JSONEncodeError for what others could not read either, such as 1e400.
    """
    return digest_of_document(orjson.loads(raw))


def digest_of_document(document: Any) -> str:
    """The same of a document that is parsed already."""
    return hashlib.sha256(orjson.dumps(document, option=orjson.OPT_SORT_KEYS)).hexdigest()
