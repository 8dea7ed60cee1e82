"""Releases the resources that a streaming query of Spark 4.1 leaves behind in a session.

For each query with a Python source Java keeps a selector and the closed socket registered with it (three descriptors),
and a thread that watches workers which are gone. None of them is of use once the query has ended, and no other code
lets go of them.

All of it is done by reflection, and what does not succeed leaves no more behind than Spark did.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

# Java's options: where selectors are found is closed to others by default.
_LOOK_S = 0.01  # a Python process that connects takes some hundred milliseconds to start
_LOOK_S_MAX = 30.0
_BLOCKERS = ("blocker", "nioBlocker")  # of Java 17, of Java 21
_HANDLER = "java.lang.Thread$UncaughtExceptionHandler"
_TAKES_BOTH = "(Ljava/lang/Thread;Ljava/lang/Throwable;)V"


class QueryCleanup:
    """Of one query. ``watch`` as soon as it is started, ``drop`` when it has ended."""

    def __init__(self, spark: SparkSession, python_sources: int) -> None:
        self._gateway: Any = spark.sparkContext._gateway  # noqa: SLF001 - PySpark has no other way to Java
        self._sources = python_sources
        self._selectors: list[Any] = []
        self._over = threading.Event()
        self._looking: threading.Thread | None = None

    def watch(self, query: StreamingQuery) -> None:
        """Look for the selectors with which Java waits for the sources' Python processes: only then are they seen."""
        if self._sources:
            self._looking = threading.Thread(target=self._look, args=(query,), name="leftovers", daemon=True)
            self._looking.start()

    def drop(self) -> None:
        """Let go of all that was left; the query has ended."""
        self._over.set()
        if self._looking is not None:
            self._looking.join()
        for selector in self._selectors:
            with suppress(Exception):
                selector.close()
        with suppress(Exception):
            self._end_monitors()

    def _look(self, query: StreamingQuery) -> None:
        with suppress(Exception):
            thread = query._jsq.streamingQuery().queryExecutionThread()  # noqa: SLF001 - as above
            blocker = self._blocker()
            seen = set()
            for _ in range(round(_LOOK_S_MAX / _LOOK_S)):
                waits_in = blocker.get(thread)
                if waits_in is not None and "AbstractSelector" in waits_in.getClass().getName():
                    selector = self._field(waits_in.getClass(), "this$0").get(waits_in)
                    number = self._gateway.jvm.System.identityHashCode(selector)
                    if number not in seen:
                        seen.add(number)
                        self._selectors.append(selector)
                if len(seen) == self._sources or self._over.wait(_LOOK_S):
                    return

    def _blocker(self) -> Any:
        """The field of a thread with the object that it waits on."""
        names = {each.getName() for each in self._class("java.lang.Thread").getDeclaredFields()}
        return self._field(self._class("java.lang.Thread"), next(name for name in _BLOCKERS if name in names))

    def _end_monitors(self) -> None:
        """Of workers that are started for one source each there is nothing to watch: they never wait for work."""
        jvm = self._gateway.jvm
        takes = jvm.java.lang.invoke.MethodType.fromMethodDescriptorString(_TAKES_BOTH, None)
        nothing = jvm.java.lang.invoke.MethodHandles.empty(takes)
        quiet = jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(self._class(_HANDLER), nothing)
        for thread in jvm.java.lang.Thread.getAllStackTraces().keySet():
            if thread.getName().startswith("Idle Worker Monitor"):
                factory = self._field(thread.getClass(), "$outer").get(thread)
                if not self._field(factory.getClass(), "useDaemon").get(factory):
                    thread.setUncaughtExceptionHandler(quiet)
                    thread.interrupt()

    def _class(self, name: str) -> Any:
        return self._gateway.jvm.java.lang.Class.forName(name)

    @staticmethod
    def _field(of: Any, name: str) -> Any:
        found = of.getDeclaredField(name)
        found.setAccessible(True)
        return found
