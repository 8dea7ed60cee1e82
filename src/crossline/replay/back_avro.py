"""Topics of Avro records read backwards, for records that are looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crossline.core.avro.document import document
from crossline.core.avro.schema import Node
from crossline.core.avro.wire import schema_id
from crossline.core.basics.errors import CrosslineError
from crossline.replay.back import KafkaRows

if TYPE_CHECKING:
    from crossline.connectors.kafka.back import KafkaBack
    from crossline.connectors.registry.store import SchemaStore


class AvroRows(KafkaRows):
    """Records by the schemas of ``store``: those that the pipeline read by are kept, and need no registry."""

    def __init__(self, back: KafkaBack, store: SchemaStore) -> None:
        super().__init__(back, self._record)
        self._store = store
        self._schemas: dict[int, Node | str] = {}

    def _record(self, raw: bytes) -> dict[str, Any] | None:
        number = schema_id(raw)
        if number is not None and number not in self._schemas:
            self._schemas[number] = self._asked(number)
        return document(self._schemas, raw)

    def _asked(self, number: int) -> Node | str:
        try:
            return self._store.looked_up(number)
        except CrosslineError as error:
            self.gone.append(f"records of schema {number} could not be read: {error}")
            return ""
