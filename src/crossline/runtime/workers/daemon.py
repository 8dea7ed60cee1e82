"""The daemon that forks Spark's Python workers, made quick to start a task.

PySpark invalidates Python's import caches at every task, and the workers' path holds zips and jars whose directories
(about 10,000 entries) would be read again each time: 60-300 ms a task. They are dropped here, once, and what every
worker needs is imported before the first fork.
"""

from __future__ import annotations

import gc
import signal
import sys
from typing import Any

from crossline.runtime.machine.freed_memory import keep_freed_memory
from crossline.runtime.machine.garbage import collect_seldom
from crossline.runtime.machine.lifeline import watched_lifeline
from crossline.runtime.machine.process_title import set_process_title


def _trim_path() -> None:
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()


_loaded: list[bool] = []


def preload() -> None:
    """Load what workers need, and run every kernel once; nothing where that was done."""
    if _loaded:
        return
    _loaded.append(True)
    collect_seldom()
    _trim_path()
    import numpy as np  # noqa: F401, PLC0415
    import pandas as pd  # noqa: F401, PLC0415
    import pyarrow as pa  # noqa: F401, PLC0415
    import pyspark.sql.worker.create_data_source  # noqa: PLC0415
    import pyspark.sql.worker.plan_data_source_read  # noqa: PLC0415
    import pyspark.worker  # noqa: F401, PLC0415

    import crossline.evaluate.suppression.changes  # noqa: PLC0415
    import crossline.io.tokens.opening  # noqa: PLC0415
    import crossline.plan.pattern_plans  # noqa: PLC0415
    import crossline.rules.figure_tables  # noqa: PLC0415
    import crossline.runtime.snapshot.tables  # noqa: PLC0415
    import crossline.runtime.spark.flow  # noqa: PLC0415
    import crossline.runtime.stages.decision_writer  # noqa: PLC0415
    import crossline.runtime.workers.driver_states  # noqa: PLC0415
    import crossline.runtime.workers.in_process_worker  # noqa: PLC0415
    import crossline.runtime.workers.read_ahead  # noqa: PLC0415
    import crossline.runtime.workers.stage_worker  # noqa: PLC0415
    import crossline.runtime.workers.state_servers  # noqa: PLC0415
    import crossline.state.retraction.kernel  # noqa: F401, PLC0415
    from crossline.basics.streams.schema import StreamSpec  # noqa: PLC0415
    from crossline.logs import configure_helper, configure_with, get_logger  # noqa: PLC0415
    from crossline.rules.types.velocity import VelocityRule  # noqa: PLC0415
    from crossline.runtime.machine.compile_progress import CompileProgress  # noqa: PLC0415
    from crossline.runtime.workers.kernel_warmup import warm  # noqa: PLC0415

    for model in (StreamSpec, VelocityRule):  # of every plan snapshot, and of most: built once, not by each worker
        model.model_rebuild()
    configure_with(configure_helper)
    log = get_logger(__name__)

    def begun() -> None:
        log.warning("compiling kernels, once after an installation; the first batch waits for it, some half a minute")

    CompileProgress(begun, lambda *_: None).watch()
    warm()


def keep_loaded() -> None:
    """Nothing of what is loaded by now is garbage.

    PySpark collects garbage after every task. Looking through what is loaded costs 160 ms a time.
    """
    gc.collect()
    gc.freeze()


def open_place() -> None:
    """Where state servers are."""
    from crossline.runtime.workers.state_server import open_state_server_folder  # noqa: PLC0415

    keep_loaded()
    open_state_server_folder()


def _serve() -> None:
    from pyspark import daemon  # noqa: PLC0415 - the path is trimmed first

    serve_one = daemon.worker

    def worker(sock: Any, authenticated: bool) -> int:
        """As PySpark's; a Spark that is gone while a worker still writes is no news."""
        set_process_title("cl-worker")
        keep_freed_memory()  # a batch takes the megabytes that the one before freed
        try:
            code: int = serve_one(sock, authenticated)
        except BrokenPipeError:
            return 1
        return code

    daemon.worker = worker
    daemon.manager()


def main() -> None:
    """Serve as PySpark's daemon does."""
    # A terminal and a supervisor send these to every process of a run. This one, its workers and their state servers go
    # when Spark goes, and Spark when the pipeline has been stopped; until then they have work to finish.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    _trim_path()
    # Spark starts a daemon for each kind of worker; those that plan a source run nothing of ours.
    if sys.argv[1:] in ([], ["pyspark.worker"]):
        with watched_lifeline():  # its Java may go while it compiles
            preload()
        open_place()
    _serve()


if __name__ == "__main__":
    main()
