"""The console: one plain line an alert, colour on a terminal only."""

from __future__ import annotations

import errno
import io
import os
import threading
from contextlib import suppress

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import SinkError
from crossline.io.sinks.base import Delivery, deliver_all
from crossline.io.sinks.console import ConsoleSink

from .makers import alert, delivery


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Closed(io.StringIO):
    writes = 0

    def write(self, _: str) -> int:
        self.writes += 1
        raise BrokenPipeError


class Full(io.StringIO):
    full = True

    def write(self, text: str) -> int:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


def printed(batch: Delivery, limit: int = 50, screen: io.StringIO | None = None) -> str:
    screen = screen or io.StringIO()
    sink = ConsoleSink(screen, limit)
    sink.open()
    sink.deliver(batch)
    sink.close()
    return screen.getvalue()


def test_a_line() -> None:
    line = "2026-01-01T00:00:07.120Z  high      card_burst@3  10 payments by account a1 in 60 s (line: 10)  [t1]\n"
    assert printed(delivery(0, "t1")) == line


def test_a_long_sentence_stays_on_one_line() -> None:
    message = "word " * 100
    text = printed(Delivery("p", 0, alerts=[alert("t1", message=message)]))
    assert text.count("\n") == 1
    assert message in text


def test_severity_is_coloured_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    assert "\x1b[31mhigh" in printed(delivery(0, "t1"), screen=Terminal())


def test_brackets_and_control_characters_are_text() -> None:
    text = printed(Delivery("p", 0, alerts=[alert("t\x1b[2J", message="[red]a[/red]\nb\u202e :smile:")]))
    assert "[red]a[/red]\\nb\\u202e :smile:  [t\\x1b[2J]\n" in text


def test_shadow_alerts_and_feeding_rules_are_not_shown() -> None:
    assert not printed(Delivery("p", 0, alerts=[alert("t1", kind="shadow"), alert("t2", emit_to_sink=False)]))


def test_a_flood_is_cut_and_counted() -> None:
    lines = printed(delivery(0, *(f"t{i}" for i in range(1005))), limit=3).splitlines()
    assert [line[-4:] for line in lines[:3]] == ["[t0]", "[t1]", "[t2]"]
    assert lines[3:] == ["… and 1,002 more alerts in this batch"]


def test_a_closed_pipe_ends_the_printing_alone() -> None:
    screen = Closed()
    sink = ConsoleSink(screen)
    sink.open()
    sink.deliver(delivery(0, "t1", "t2"))
    sink.deliver(delivery(1, "t3"))
    assert screen.writes == 1


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), ValueError("closed")])
def test_a_terminal_that_is_gone_ends_the_printing_alone(error: Exception) -> None:
    class Gone(io.StringIO):
        writes = 0

        def write(self, _: str) -> int:
            self.writes += 1
            raise error

    screen = Gone()
    sink = ConsoleSink(screen)
    sink.open()
    with capture_logs() as logs:
        sink.deliver(delivery(0, "t1", "t2"))
        sink.deliver(delivery(1, "t3"))
    assert screen.writes == 1
    assert [entry["log_level"] for entry in logs] == ["warning"]


def test_a_closed_standard_output_ends_the_printing_alone() -> None:
    screen = io.StringIO()
    sink = ConsoleSink(screen)
    sink.open()
    screen.close()
    with capture_logs():
        sink.deliver(delivery(0, "t1"))


def test_a_full_disk_holds_the_batch_and_goes_on_where_it_stopped() -> None:
    class Full(io.StringIO):
        room = 2

        def write(self, text: str) -> int:
            if self.room == 0:
                raise OSError(errno.ENOSPC, "No space left on device")
            self.room -= 1
            return super().write(text)

    screen = Full()
    sink = ConsoleSink(screen)
    sink.open()
    for _ in range(2):
        with pytest.raises(SinkError, match="No space left"):
            sink.deliver(delivery(0, "t1", "t2", "t3"))
    screen.room = 9
    sink.deliver(delivery(0, "t1", "t2", "t3"))
    assert [line[-4:] for line in screen.getvalue().splitlines()] == ["[t1]", "[t2]", "[t3]"]


def test_what_the_screen_has_no_letters_for_is_escaped() -> None:
    raw = io.BytesIO()
    screen = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
    sink = ConsoleSink(screen, limit=1)
    sink.open()
    sink.deliver(Delivery("p", 0, alerts=[alert("t1", message="café €"), alert("t2")]))
    assert raw.getvalue().decode().splitlines() == [
        "2026-01-01T00:00:07.120Z  high      card_burst@3  caf\\xe9 \\u20ac  [t1]",
        "\\u2026 and 1 more alerts in this batch",
    ]


@pytest.mark.parametrize("long", [False, True])
def test_a_reader_that_stands_still_holds_the_batch_but_no_stop(*, long: bool) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 4096)
    os.set_blocking(writing, True)
    os.read(reading, 4096 if long else 0)  # room for a part of the long line
    stop = threading.Event()
    timer = threading.Timer(0.2, stop.set)
    timer.start()
    with os.fdopen(reading, "rb"), os.fdopen(writing, "w", encoding="utf-8") as screen:
        sink = ConsoleSink(screen)
        sink.open()
        batch = Delivery("p", 0, alerts=[alert("t1", message="é" * 20_000 if long else "short")])
        with capture_logs(), pytest.raises(SinkError, match="who reads it stands still"):
            deliver_all([sink], batch, stop=stop)
    timer.join()


def test_a_long_line_comes_whole_to_a_slow_reader() -> None:
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as reader, os.fdopen(writing, "w", encoding="utf-8") as screen:
        got: list[bytes] = []
        thread = threading.Thread(target=lambda: got.append(reader.readline()))
        thread.start()
        sink = ConsoleSink(screen)
        sink.open()
        sink.deliver(Delivery("p", 0, alerts=[alert("t1", message="é" * 100_000)]))
        thread.join()
    assert got[0].count("é".encode()) == 100_000
    assert got[0].endswith(b"[t1]\n")
