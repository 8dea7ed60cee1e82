"""Deliveries to several sinks: holding, retries, permanent errors; names of sinks."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import CrosslineError, PermanentError, SinkError, UsageError
from crossline.evaluate.decisions.columns import DecisionColumns
from crossline.io.sinks import base
from crossline.io.sinks.base import Delivery, RetryPolicy, build_sink, deliver_all, for_delivery, register_sink
from crossline.io.sinks.console import ConsoleSink
from crossline.io.sinks.decisions import Decisions
from crossline.io.sinks.jsonl import JsonlSink
from crossline.io.sqlite.sink import SqliteSink
from crossline.settings.fields import Settings

from .makers import alert, delivery

AT_ONCE = RetryPolicy(initial_ms=0)
WAIT_S = 300.0


class Flaky:
    """Raises ``errors`` one after the other, then takes what comes."""

    def __init__(self, *errors: CrosslineError) -> None:
        self.errors = list(errors)
        self.taken: list[int] = []
        self.calls = 0

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:  # noqa: ARG003 - the protocol's
        return cls()

    def open(self) -> None: ...

    def deliver(self, delivery: Delivery) -> None:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append(delivery.batch_id)

    def close(self) -> None: ...


def test_a_sink_that_is_down_holds_the_batch_and_the_others_are_not_called_again() -> None:
    before, down, after = Flaky(), Flaky(SinkError("down"), SinkError("down")), Flaky()
    with capture_logs() as logs:
        deliver_all([before, down, after], delivery(4, "t1"), AT_ONCE)
    assert (before.calls, down.calls, after.calls) == (1, 3, 1)
    assert [before.taken, down.taken, after.taken] == [[4], [4], [4]]
    assert [(entry["log_level"], entry["attempt"], entry["batch_id"], entry["error"]) for entry in logs] == [
        ("warning", 1, 4, "down"),
        ("warning", 2, 4, "down"),
    ]


@pytest.mark.parametrize("sinks", [1, 3])
def test_what_is_delivered_is_let_go_of_at_once(sinks: int) -> None:
    """Python looks for garbage in circles seldom, and a batch may have megabytes of decisions."""
    given = Decisions(DecisionColumns.of_values([], []))
    gone = weakref.ref(given)
    gc.disable()
    try:
        deliver_all([Flaky() for _ in range(sinks)], Delivery("p", 0, decisions=given))
        del given
        assert gone() is None
    finally:
        gc.enable()


def test_a_permanent_error_is_raised_and_keeps_the_batch_from_no_other_sink() -> None:
    broken, after = Flaky(PermanentError("no such topic")), Flaky()
    with pytest.raises(PermanentError, match="no such topic"):
        deliver_all([broken, after], delivery(0), AT_ONCE)
    assert (broken.calls, after.calls, after.taken) == (1, 1, [0])


def test_an_unexpected_error_of_a_sink_keeps_the_batch_from_no_other() -> None:
    class Broken(Flaky):
        def deliver(self, delivery: Delivery) -> None:
            raise KeyError(delivery.batch_id)

    after = Flaky()
    with pytest.raises(KeyError):
        deliver_all([Broken(), after], delivery(0), AT_ONCE)
    assert after.taken == [0]


def test_no_sink_waits_for_one_that_is_down_or_slow() -> None:
    there = threading.Event()

    class Waiting(Flaky):
        """Not done before the last sink has the batch."""

        def deliver(self, delivery: Delivery) -> None:
            assert there.wait(WAIT_S), "the last sink had to wait"
            super().deliver(delivery)

    class Down(Flaky):
        def deliver(self, delivery: Delivery) -> None:
            if not there.is_set():
                raise SinkError("down")
            super().deliver(delivery)

    class Last(Flaky):
        def deliver(self, delivery: Delivery) -> None:
            super().deliver(delivery)
            there.set()

    sinks = [Down(), Waiting(), Last()]
    with capture_logs():
        deliver_all(sinks, delivery(0), RetryPolicy(initial_ms=1, max_ms=10, attempts_max=10_000))
    assert [sink.taken for sink in sinks] == [[0], [0], [0]]


def test_what_ends_the_pipeline_is_raised_and_ends_the_retries_of_the_others() -> None:
    class Broken(Flaky):
        """Fails once the other one has, and is held."""

        def deliver(self, delivery: Delivery) -> None:
            while not logs:
                threading.Event().wait(0.001)
            super().deliver(delivery)

    down, broken = Flaky(*(SinkError("down") for _ in range(9))), Broken(PermanentError("no such topic"))
    with capture_logs() as logs, pytest.raises(PermanentError, match="no such topic"):
        deliver_all([down, broken], delivery(0), RetryPolicy(initial_ms=10**9, grace_ms=1))
    assert {(entry["log_level"], entry["error"]) for entry in logs} == {("warning", "down"), ("error", "down")}


def test_a_sink_that_needs_a_moment_has_it_though_another_has_failed_for_good() -> None:
    slow, broken = Flaky(SinkError("down"), SinkError("down")), Flaky(PermanentError("no such topic"))
    with capture_logs(), pytest.raises(PermanentError, match="no such topic"):
        deliver_all([slow, broken], delivery(0), RetryPolicy(initial_ms=1, grace_ms=60_000))
    assert slow.taken == [0]


def test_stopping_while_one_of_several_holds_the_batch() -> None:
    stop = threading.Event()

    class Stopping(Flaky):
        def deliver(self, delivery: Delivery) -> None:
            super().deliver(delivery)
            stop.set()

    down, other = Flaky(*(SinkError("down") for _ in range(9))), Stopping()
    with capture_logs(), pytest.raises(SinkError, match="down"):
        deliver_all([down, other], delivery(3), RetryPolicy(initial_ms=10**9), stop)
    assert other.taken == [3]


def test_the_bound_on_attempts() -> None:
    down = Flaky(*(SinkError("down") for _ in range(9)))
    with capture_logs(), pytest.raises(SinkError, match="down"):
        deliver_all([down], delivery(0), RetryPolicy(initial_ms=0, attempts_max=3))
    assert down.calls == 3


def test_stopping_while_a_batch_is_held() -> None:
    stop = threading.Event()

    class Stopping(Flaky):
        def deliver(self, delivery: Delivery) -> None:
            stop.set()
            super().deliver(delivery)

    with pytest.raises(SinkError):
        deliver_all([Stopping(SinkError("down"), SinkError("down"))], delivery(0), RetryPolicy(initial_ms=10**9), stop)


def test_pauses_grow_to_a_bound_and_follow_the_sinks_retry_time() -> None:
    asked = [None, None, None, None, 5000]
    down = Flaky(*(SinkError("down", retry_after_ms=each) for each in asked))
    waited: list[float] = []

    class Recording(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            waited.append(timeout or 0)
            return False

    with capture_logs():
        deliver_all([down], delivery(0), RetryPolicy(initial_ms=100, max_ms=400), Recording())
    bounds_s = [(0.05, 0.1), (0.1, 0.2), (0.2, 0.4), (0.2, 0.4), (5, 5)]
    assert len(waited) == 5
    assert all(low <= pause <= high for pause, (low, high) in zip(waited, bounds_s, strict=True))


def test_what_leaves_the_store() -> None:
    alerts = [alert("t1"), alert("t2", kind="shadow"), alert("t3", emit_to_sink=False), alert("t4", kind="correction")]
    assert [a["record_id"] for a in for_delivery(Delivery("p", 0, alerts=alerts))] == ["t1", "t4"]


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"kind": "sqlite", "path": "a.db"}, SqliteSink),
        ({"kind": "jsonl", "path": "a.jsonl", "dead_letters": "d.jsonl"}, JsonlSink),
        ({"kind": "console"}, ConsoleSink),
    ],
)
def test_sinks_by_kind(settings: Mapping[str, Any], kind: type) -> None:
    assert type(build_sink(settings, "p")) is kind


def test_a_sink_gets_the_settings_of_the_pipeline(tmp_path: Path) -> None:
    sink = build_sink({"kind": "sqlite", "path": str(tmp_path / "x" / "a.db")}, "p")
    sink.open()
    sink.deliver(delivery(0, "t1"))
    sink.close()
    assert (tmp_path / "x" / "a.db").is_file()


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"kind": "sqlit", "path": "a"}, "did you mean sqlite?"),
        ({"kind": "sqlite"}, "path"),
        ({"kind": "jsonl", "path": "a", "deadletters": "b"}, "did you mean dead_letters?"),
        ({"path": "a"}, "kind"),
    ],
)
def test_a_sink_described_wrongly(settings: Mapping[str, Any], text: str) -> None:
    with pytest.raises(UsageError) as refused:
        build_sink(settings, "p")
    assert text in str(refused.value)


class FlakySettings(Settings):
    kind: Literal["flaky"]


@pytest.mark.parametrize(
    ("kind", "package", "settings"),
    [
        ("redis", "redis", {}),
        ("postgres", "psycopg", {"host": "h", "user": "u"}),
    ],
)
def test_a_sink_whose_package_is_not_there(
    kind: str, package: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith((f"crossline.io.{kind}", f"{package}."))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    text = f"a sink of kind {kind} needs {package}, which is not installed: pip install 'crossline[{kind}]'"
    with pytest.raises(UsageError, match=re.escape(text)):
        build_sink({"kind": kind, **settings}, "p")


def test_a_sink_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_PLACES", dict(base._PLACES))
    monkeypatch.delitem(base.SINKS, "flaky", raising=False)
    register_sink("flaky", FlakySettings, f"{__name__}:Flaky")
    register_sink("flaky", FlakySettings, f"{__name__}:Flaky")
    assert type(build_sink({"kind": "flaky"}, "p")).__name__ == "Flaky"
    with pytest.raises(UsageError, match="sink kind 'sqlite' is registered by"):
        register_sink("sqlite", FlakySettings, f"{__name__}:Flaky")
    base.SINKS.pop("flaky")
