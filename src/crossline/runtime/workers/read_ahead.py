"""Has the state servers read what the next batch needs, while Java and Spark start.

A restart has nothing to judge until Spark has planned a batch, which takes seconds. The states of a checkpoint are
known before: once the pipeline holds it, nobody else writes to it. So a fork of the zygote asks the state servers for
them and ends. It is a head start and no more: what is not read in time is read by the batch, as ever.
"""

from __future__ import annotations

import json
import re
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from crossline.runtime.machine.processors import processors
from crossline.runtime.machine.zygote_client import request_fork
from crossline.runtime.snapshot.snapshot import SnapshotFile
from crossline.runtime.snapshot.spark_log import last_committed, query_id, unfinished_batch
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.state_log.read_ahead import ReadAhead
from crossline.runtime.workers.state_server import state_server_folder

MODULE = "crossline.runtime.workers.read_ahead"


def begin_reading(zygote: Path, checkpoint: str, state_root: str, master: str | None) -> bool:
    """Have the states of the checkpoint in the folder ``checkpoint`` read by a fork of ``zygote``.

    Whoever calls holds the checkpoint. False where there is nothing to read, or nobody to do it.
    """
    cores = _cores(master)
    unfinished = unfinished_batch(checkpoint)
    batch_id = last_committed(checkpoint) + 1 if unfinished is None else unfinished
    snapshot = Path(checkpoint) / "snapshot.json"
    if cores is None or batch_id < 1 or not snapshot.exists():
        return False
    with suppress(OSError, ValueError, KeyError):
        given = {
            "snapshot": str(snapshot),
            "root": state_root,
            "query_id": query_id(checkpoint),
            "batch_id": batch_id,
            "cores": cores,
        }
        # Nobody waits for it, and its output is no result.
        request_fork(str(zygote), MODULE, [json.dumps(given)], [0, 2, 2]).close()
        return True
    return False


def _cores(master: str | None) -> int | None:
    """How many tasks Spark runs side by side; None where that is not on this machine alone."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,.*)?\])?", master or "local[*]", re.ASCII)
    if found is None:
        return None
    return processors() if found.group(1) == "*" else int(found.group(1) or 1)


def ask(given: dict[str, Any]) -> None:
    """Ask each state server for the shards that it will judge; it reads them with nobody waiting."""
    where = state_server_folder()
    if where is None:
        return
    source = SnapshotFile(given["snapshot"])
    shards = source.current().shards
    cache = ShardCache(given["root"], per_query=False, held_max=shards)
    count = max(1, min(shards, given["cores"], processors()))  # as ``judge_shards`` has it
    for number in range(count):
        mine = tuple(range(number, shards, count))
        where.read_ahead(number, ReadAhead(source, cache, given["query_id"], given["batch_id"], mine))


def main() -> None:
    """In the fork: what is asked for stands in its one argument."""
    ask(json.loads(sys.argv[-1]))
