"""Opens the store that an address or a pipeline names."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crossline.io.stores.protocol import Store

if TYPE_CHECKING:
    from crossline.settings.config import PipelineConfig

_URLS = ("postgresql://", "postgres://")


def open_store(place: str) -> Store:
    """The store at ``place``: the file of a sqlite sink, or ``postgresql://user@host:port/dbname?schema=NAME``.

    Raises UsageError where there is none, or where a password stands in an address.
    """
    if in_a_database(place):
        from crossline.io.postgres.client import address_of_url  # noqa: PLC0415 - loads a client
        from crossline.io.postgres.reader import PostgresReader  # noqa: PLC0415 - as above

        return PostgresReader(address_of_url(place))
    from crossline.io.sqlite.reader import StoreReader  # noqa: PLC0415 - a store of the other kind needs none

    return StoreReader(Path(place))


def in_a_database(place: str) -> bool:
    """Whether ``place`` is the address of a store, and not a file."""
    return place.startswith(_URLS)


def labels_of(place: str, streams: Collection[str] | None) -> Iterator[Mapping[str, Any]]:
    """The verdicts on records of ``streams`` (None: of all) in the store at the address ``place``.

    Each has ``record_id``, ``is_fraud`` and ``fraud_id``. Raises UsageError as ``open_store``.
    """
    from crossline.io.postgres.client import address_of_url  # noqa: PLC0415 - loads a client
    from crossline.io.postgres.labels import labels_in  # noqa: PLC0415 - as above

    return labels_in(address_of_url(place), streams)


def label_versions_of(place: str, stream: str, as_of_ms: int) -> Iterator[tuple[str, int, bool | None, int | None]]:
    """All verdicts on records of a stream that a store had by ``as_of_ms``: record id, order, verdict, when (us).

    Raises UsageError as ``open_store``.
    """
    from crossline.io.postgres.client import address_of_url  # noqa: PLC0415 - loads a client
    from crossline.io.postgres.labels import label_versions_in  # noqa: PLC0415 - as above

    return label_versions_in(address_of_url(place), stream, as_of_ms)


def store_of(config: PipelineConfig) -> Store | None:
    """The store of the first sink of a pipeline that writes one; None without such a sink."""
    for sink in config.sinks:
        if sink.kind == "sqlite":
            return open_store(str(Path(sink.path)))
        if sink.kind == "postgres":
            from crossline.io.postgres.client import address_of  # noqa: PLC0415 - loads a client
            from crossline.io.postgres.reader import PostgresReader  # noqa: PLC0415 - as above

            return PostgresReader(address_of(sink))
    return None
