"""Checks a mended record as the pipeline will, and makes of it what its stream holds: JSON, or Avro by a schema."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any, Protocol

import numpy as np
import orjson
import pyarrow as pa

from crossline.basics.errors import CrosslineError, UsageError
from crossline.basics.streams.api_record import KeyedSubmission, SubmittedRecord
from crossline.basics.streams.schema import StreamSpec
from crossline.ingest.avro.encoder import UnfitError, encoded
from crossline.ingest.avro.records import decode_avro
from crossline.ingest.avro.schema import Node
from crossline.ingest.avro.view import Viewed, viewed
from crossline.ingest.avro.wire import schema_id
from crossline.io.recordlog.keys import message_key
from crossline.io.registry.client import UnknownSchemaError
from crossline.io.registry.schema_store import SchemaStore
from crossline.io.tokens.opening import decoder_of
from crossline.serve.decisions.records import PLACE, CheckedRecord, StreamRecords


class NotFitError(UsageError):
    """The record does not fit its stream: it would be a dead letter again."""


class Repair(Protocol):
    """What is done with a mended record before it is sent. Each call may wait for a registry."""

    def made(self, number: int, text: bytes, letter: bytes | None, now_ms: int) -> SubmittedRecord:
        """The record as it is put into the stream.

        Args:
            number: Of the call.
            text: The mended record, as JSON.
            letter: The bytes of the dead letter; None if they were not kept.
            now_ms: Epoch milliseconds.

        Raises NotFitError if it would be refused again, SourceError where a registry does not answer.
        """
        ...


@dataclass(frozen=True, slots=True)
class JsonRepair:
    """Records of a stream of JSON are put there as they are."""

    records: StreamRecords
    stream: str

    def made(self, number: int, text: bytes, letter: bytes | None, now_ms: int) -> SubmittedRecord:  # noqa: ARG002 - of the protocol
        """See ``Repair``."""
        found = self.records.check(self.stream, [text], now_ms)[0]
        if isinstance(found, CheckedRecord):
            return SubmittedRecord(number, self.stream, found.record_id, found.raw, found.digest, now_ms)
        raise NotFitError("; ".join(f"{each.reason}: {each.sentence}" for each in found.faults))


@dataclass(frozen=True, slots=True)
class AvroRepair:
    """Records of a stream of Avro, by the newest schema of its topic; where that has none, by the dead letter's own.

    ``key``: field of the message's key. ``schemas``: of the registry, which is not waited for.
    """

    stream: str
    spec: StreamSpec
    topic: str
    key: str
    schemas: SchemaStore
    _layouts: dict[str, Any] = field(default_factory=dict)

    def made(self, number: int, text: bytes, letter: bytes | None, now_ms: int) -> SubmittedRecord:
        """See ``Repair``."""
        try:
            record = orjson.loads(text)
        except orjson.JSONDecodeError as error:
            raise NotFitError(f"malformed_json: {error}") from None
        which, schema = self._schema(letter)
        try:
            raw = encoded(which, schema, record)
        except UnfitError as error:
            raise NotFitError(f"by schema {which}: {error}") from None
        record_id = self._id(raw, {which: schema}, now_ms)
        return KeyedSubmission(
            number, self.stream, record_id, raw, sha256(raw).hexdigest(), now_ms, message_key(record, self.key)
        )

    def view(self, letter: bytes) -> Viewed:
        """The record of a dead letter, as far as it can be read."""
        which = schema_id(letter)
        return viewed({} if which is None else {which: self._known(which)}, letter)

    def _schema(self, letter: bytes | None) -> tuple[int, Node]:
        subject = f"{self.topic}-value"
        try:
            which: int | None = self.schemas.address.latest(subject)
        except UnknownSchemaError:
            which = None if letter is None else schema_id(letter)
        if which is None:
            raise NotFitError(f"the registry has no schema {subject}, and the dead letter names none")
        found = self.schemas.kept(which) or self.schemas.looked_up(which)
        if isinstance(found, str):
            raise NotFitError(found)
        return which, found

    def _known(self, which: int) -> Node | str:
        try:
            return self.schemas.kept(which) or self.schemas.looked_up(which)
        except CrosslineError as error:
            return str(error)

    def _id(self, raw: bytes, schemas: Mapping[int, Node | str], now_ms: int) -> str:
        """The id under which the pipeline takes it."""
        layout = self._layouts.get(self.stream)
        if layout is None:
            layout = self._layouts[self.stream] = decoder_of(self.stream, self.spec)
        at, came_ms = np.zeros(1, np.int64), np.array([now_ms], np.int64)
        values = pa.array([raw], pa.binary())
        decoded = decode_avro(layout, values, PLACE, at, came_ms, schemas, known_ms=came_ms)
        for letter in decoded.dead:
            raise NotFitError(f"{letter.reason}: {letter.detail}")
        return str(decoded.records.ids[0].as_py())
