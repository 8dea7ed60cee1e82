"""Spark jobs that end when what they are done for is being stopped."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from pyspark.sql import SparkSession

from crossline.core.basics.errors import StoppedError

AGAIN_S = 0.2


class Cancellable:
    """Jobs of one pipeline, outside of its batches: those end with the query."""

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
    def cancelling(self) -> Iterator[None]:
        """Cancel what is at work, for as long as this lasts: a job may be about to start at the first try."""
        done = threading.Event()
        thread = threading.Thread(target=self._cancel, args=(done,), name="cancel", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _cancel(self, done: threading.Event) -> None:
        while not done.is_set():
            if self._at_work.is_set():
                with suppress(Exception):  # a Spark that is gone has no jobs
                    self._context.cancelJobsWithTag(self._tag)
            done.wait(AGAIN_S)
