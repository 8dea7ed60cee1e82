"""Bytes of late records and duplicates: those of streams with sensitive fields are not fetched."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from crossline.basics.streams.schema import load_streams
from crossline.ingest.tokens.letters import WITHHELD
from crossline.runtime.sources.plan_source import SourcePlan, fetchers_of

STREAMS = """
schema_version: 1
streams:
  plain:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer, account: string}
  secret:
    id: id
    event_time: {field: at}
    fields: {id: string, at: integer, account: string}
    sensitive: {account: {}}
"""


def test_bytes_of_sensitive_streams_are_withheld() -> None:
    asked: list[Any] = []

    def fetch(partition: str, offsets: Sequence[int], until_s: float) -> dict[int, bytes]:
        asked.append((partition, list(offsets), until_s))
        return dict.fromkeys(offsets, b"raw")

    sources = [cast("SourcePlan", SimpleNamespace(stream=name, fetch=fetch)) for name in ("plain", "secret")]
    found = fetchers_of(sources, load_streams(STREAMS, "stream.yaml"))
    assert found["plain"]("p", [1, 5], 9.0) == {1: b"raw", 5: b"raw"}
    assert found["secret"]("p", [1, 5], 9.0) == {1: WITHHELD, 5: WITHHELD}
    assert asked == [("p", [1, 5], 9.0)]
