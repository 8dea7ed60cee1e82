"""A minimal pipeline: delivers numbered batches and commits each; killed and restarted until all are done.

Before each batch it takes a line from its input, where there is any: so it does no more than its killer means it to.
Arguments: the sink's settings as JSON, file of the commits, number of batches, alerts a batch.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from crossline.io.outbox.sink import OutboxSink
from crossline.io.sinks.base import Delivery, build_sink

from .makers import alert


def main(settings: str, commits: Path, batches: int, size: int) -> None:
    described = json.loads(settings)
    sink = build_sink(described, "p")
    if described.get("behind"):
        sink = OutboxSink(sink, commits.with_name("behind"))
    sink.open()
    done = int(commits.read_text()) if commits.exists() else -1
    for batch_id in range(done + 1, batches):
        alerts = [alert(f"{batch_id}-{i}") for i in range(size)]
        sys.stdin.readline()
        sys.stdout.write("delivering\n")
        sys.stdout.flush()
        sink.deliver(Delivery("p", batch_id, alerts=alerts))
        draft = commits.with_suffix(".new")
        draft.write_text(str(batch_id))
        draft.replace(commits)
    if isinstance(sink, OutboxSink):
        sink.catch_up(threading.Event())
    sink.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
