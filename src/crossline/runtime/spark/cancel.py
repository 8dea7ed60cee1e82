"""Spark jobs that end when what they are done for is being stopped."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

from crossline.basics.errors import StoppedError

AGAIN_S = 0.2


class Cancellable:
    """Jobs of one pipeline: those of its query, and those outside of its batches."""

    def __init__(self, spark: SparkSession, stopping: threading.Event) -> None:
        self._context = spark.sparkContext
        self._stopping = stopping
        self._tag = f"crossline-{uuid.uuid4().hex}"
        self._at_work = threading.Event()

    @contextmanager
    def jobs(self) -> Iterator[None]:
        """Jobs of this thread in here can be cancelled; raises StoppedError where the pipeline is being stopped."""
        self._check()
        self._context.addJobTag(self._tag)
        self._at_work.set()
        try:
            yield
        except Exception as error:
            self._check(error)
            raise
        finally:
            self._at_work.clear()
            self._context.removeJobTag(self._tag)

    def _check(self, cause: Exception | None = None) -> None:
        if self._stopping.is_set():
            raise StoppedError("stopped while the past of new rules was read; the next start reads it again") from cause

    @contextmanager
    def cancelling(self, query: StreamingQuery | None) -> Iterator[None]:
        """Cancel what is at work, for as long as this lasts: a job may be about to start at the first try.

        ``query``: the run that is being stopped; its jobs are cancelled once.
        """
        done = threading.Event()
        thread = threading.Thread(target=self._cancel, args=(done, query), name="cancel", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _cancel(self, done: threading.Event, query: StreamingQuery | None) -> None:
        while not done.is_set():
            with suppress(Exception):  # a Spark that is gone has no jobs
                if self._at_work.is_set():
                    self._context.cancelJobsWithTag(self._tag)
                # Not before: a query that is not being stopped yet would take it for a failure.
                if query is not None and not query.isActive:
                    self._context.cancelJobGroup(str(query.runId))
            done.wait(AGAIN_S)
