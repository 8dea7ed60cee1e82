"""Reads the labels that investigators write into table ``labels``; the latest label of a record counts."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from crossline.basics.errors import UsageError
from crossline.io.postgres.client import DatabaseAddress, translated_errors
from crossline.io.postgres.migrate import version_of
from crossline.io.postgres.text_escapes import escape, unescape

_PIECE = 10_000  # rows in one query
_LAST_MS = 253_402_300_799_000  # the end of year 9999
_QUERY = "SELECT stream, record_id, is_fraud, fraud_id FROM labels_now WHERE %s::text[] IS NULL OR stream = ANY(%s)"

_VERSIONS = """SELECT record_id, is_fraud, (extract(epoch FROM labelled_at) * 1000000)::bigint AS at_us FROM labels
    WHERE stream = %s AND labelled_at <= to_timestamp(%s / 1000.0)"""


def label_versions_in(
    place: DatabaseAddress, stream: str, as_of_ms: int
) -> Iterator[tuple[str, int, bool | None, int | None]]:
    """All verdicts on records of ``stream`` by ``as_of_ms``: record id, order, verdict, microseconds of the epoch.

    A verdict is known when it is given: the order is its time. Errors as ``labels_in``.
    """
    with _reading(place) as cursor:
        cursor.execute(_VERSIONS.encode(), [escape(stream), min(as_of_ms, _LAST_MS)])
        for record_id, is_fraud, at_us in cursor:
            yield unescape(record_id), at_us, is_fraud, at_us


def labels_in(place: DatabaseAddress, streams: Collection[str] | None) -> Iterator[Mapping[str, Any]]:
    """Of records of ``streams`` (None: of all): ``record_id``, ``is_fraud`` and ``fraud_id``, which may be None.

    All as of one moment. Raises UsageError where there are no tables; other errors are the sink's.
    """
    wanted = None if streams is None else [escape(each) for each in streams]
    with _reading(place) as cursor:
        cursor.execute(_QUERY.encode(), [wanted, wanted])
        for _, record_id, is_fraud, fraud_id in cursor:
            fraud = None if fraud_id is None else unescape(fraud_id)
            yield {"record_id": unescape(record_id), "is_fraud": is_fraud, "fraud_id": fraud}


@contextmanager
def _reading(place: DatabaseAddress) -> Iterator[Any]:
    """A cursor whose rows are of one moment, and come in pieces."""
    with translated_errors(place, writing=False, opening=True), place.connect() as connection, connection.transaction():
        if not version_of(connection, place):
            raise UsageError(f"there is no store at {place.name}; a pipeline makes it when it starts")
        connection.execute("SET TRANSACTION READ ONLY")
        with connection.cursor(name="labels") as cursor:
            cursor.itersize = _PIECE
            yield cursor
