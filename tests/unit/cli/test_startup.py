"""What a start says each second, and what its seconds went into."""

from __future__ import annotations

import threading
import time

import pytest

from crossline.cli.launch import startup
from crossline.cli.launch.startup import Startup


def test_the_steps_and_their_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(startup, "_TICK_S", 60.0)
    shown: list[str] = []
    start = Startup(shown.append, began_s=100.0)
    start.step("loading")
    now[0] = 101.25
    start.step("Java and Spark")
    now[0] = 104.0
    assert start.line() == "starting, 4 s: Java and Spark (loading 1.2 s)"
    start.done()
    now[0] = 200.0
    start.done()
    assert start.spent_ms == {"loading": 1250, "Java and Spark": 2750}
    assert shown == ["starting, 0 s: loading", "starting, 1 s: Java and Spark (loading 1.2 s)"]


def test_it_says_how_far_it_is_until_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(startup, "_TICK_S", 0.001)
    ticks: list[str] = []
    enough = threading.Event()

    def show(line: str) -> None:
        ticks.append(line)
        if len(ticks) >= 5:
            enough.set()

    start = Startup(show)
    start.step("loading")
    assert enough.wait(300)
    start.done()
    ticking = [thread for thread in threading.enumerate() if thread.name == "startup"]
    for thread in ticking:
        thread.join(300)
        assert not thread.is_alive()
