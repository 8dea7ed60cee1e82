"""What the routes ask of stores and feed, answered by those of this pipeline."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from crossline.core.basics.errors import UsageError
from crossline.serve.cases import values
from crossline.serve.cases.plain import PlainCases
from crossline.serve.feed.reader import EventId, FeedReader
from crossline.serve.http.events.source import Event, EventsGoneError
from crossline.serve.http.writes.casework import ChangedError


class StoredCases(PlainCases):
    """Labels and cases of the file; that something was changed meanwhile is told as the routes know it."""

    def put_label(
        self, stream: str, record_id: str, label: Mapping[str, Any], who: str, version: int | None
    ) -> dict[str, Any]:
        """See ``CaseStore``."""
        try:
            return super().put_label(stream, record_id, label, who, version)
        except values.ChangedError as error:
            raise ChangedError(error.version) from None

    def change_case(self, case_id: str, version: int, change: Mapping[str, Any], who: str) -> dict[str, Any]:
        """See ``CaseStore``."""
        try:
            return super().change_case(case_id, version, change, who)
        except values.ChangedError as error:
            raise ChangedError(error.version) from None


class FeedEvents:
    """What batches gave, as events."""

    def __init__(self, reader: FeedReader) -> None:
        self._reader = reader

    async def follow(self, after: str | None) -> AsyncIterator[Event]:
        """See ``EventSource``."""
        try:
            begin = None if after is None else EventId.of(after)
        except UsageError as error:
            raise EventsGoneError(str(error)) from None
        async for each in self._reader.events(begin):
            if each.missed and begin is not None:
                raise EventsGoneError(f"{each.missed} batches behind {after} are not kept any more")
            key = each.value().get("key") if each.kind in {"alert", "correction"} else None
            said = {name: str(value) for name, value in key.items()} if isinstance(key, dict) else {}
            yield Event(str(each.id), each.kind, each.raw, said)
            begin = None
