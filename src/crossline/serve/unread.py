"""Records that an earlier process of the API acknowledged and no batch has yet: replicas see them all the same."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import count, islice
from pathlib import Path

from crossline.connectors.feed.files import FeedBatch
from crossline.connectors.recordlog.segments import segment_name, segment_numbers
from crossline.serve.decisions.records import Checked, StreamRecords
from crossline.serve.decisions.values import Asked, Place
from crossline.serve.replica.replicas import Replicas

UNREAD_MAX = 20_000  # more are the pipeline's backlog: replicas are behind until it is worked off
AT_ONCE = 1_000

_numbers = count(-1, -1)  # those of requests begin with 1


async def lay_unread(
    replicas: Replicas,
    newest: FeedBatch | None,
    records: StreamRecords,
    stream: str,
    folder: Path,
    placed: Callable[[str, str, Place], None],
) -> int:
    """Lay over what stands in the log at ``folder`` behind the ``newest`` batch; how many records that were.

    ``placed`` is told of each.
    """
    ends: Mapping[str, int] = {} if newest is None else newest.head["ends"].get(stream, {})
    lines = await asyncio.to_thread(lambda: list(islice(lines_behind(folder, ends), UNREAD_MAX)))
    now_ms = time.time_ns() // 1_000_000
    laid = 0
    for at in range(0, len(lines), AT_ONCE):
        given = lines[at : at + AT_ONCE]
        for (place, _), found in zip(given, records.check(stream, [raw for _, raw in given], now_ms), strict=True):
            if isinstance(found, Checked):
                asked = Asked(next(_numbers), stream, found.record_id, found.raw, found.digest, now_ms)
                replicas.lay([asked])
                replicas.placed(asked.number, place)
                placed(stream, found.record_id, place)
                laid += 1
    return laid


def lines_behind(folder: Path, ends: Mapping[str, int]) -> Iterator[tuple[Place, bytes]]:
    """The whole lines of a log behind ``ends`` (by file, the byte up to which it was read), in their order."""
    read = [name for name in ends if name.endswith(".jsonl")]
    first = max(read, default="")
    for number in segment_numbers(folder):
        name = segment_name(number)
        if name < first:
            continue
        with (folder / name).open("rb") as file:
            at = ends.get(name, 0)
            file.seek(at)
            for line in file:
                if line.endswith(b"\n"):
                    yield Place(name, at), line[:-1]
                at += len(line)
