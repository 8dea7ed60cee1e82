"""Decodes single Avro records for display, with the schemas that the pipeline cached."""

from __future__ import annotations

from typing import Any

from crossline.basics.errors import CrosslineError
from crossline.ingest.avro.document import document
from crossline.ingest.avro.schema import Node
from crossline.ingest.avro.wire import schema_id
from crossline.io.registry.schema_store import SchemaStore


class AvroDecoder:
    """Decodes Avro values to plain values; None for a value that is not a record.

    A schema that is not cached is requested once. Where the registry does not answer, the error is added to ``gone``
    and no further request is sent.
    """

    def __init__(self, store: SchemaStore, gone: list[str]) -> None:
        self._store = store.hurried()
        self._gone = gone
        self._schemas: dict[int, Node | str] = {}
        self._away = False

    def __call__(self, raw: bytes) -> dict[str, Any] | None:
        """The record in ``raw``."""
        number = schema_id(raw)
        if number is not None and number not in self._schemas:
            self._schemas[number] = self._fetched(number)
        return document(self._schemas, raw)

    def _fetched(self, number: int) -> Node | str:
        kept = self._store.kept(number)
        if kept is not None or self._away:
            return kept or ""
        try:
            return self._store.looked_up(number)
        except CrosslineError as error:
            self._away = True
            self._gone.append(f"records of schema {number} could not be read: {error}")
            return ""
