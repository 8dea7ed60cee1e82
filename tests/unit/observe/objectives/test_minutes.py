"""Minutes: written once they are over, added to by several, bounded; one that is missing is unknown."""

from __future__ import annotations

import sqlite3
import stat
from pathlib import Path

import pytest

from crossline.basics.errors import StateError
from crossline.observe.objectives.budget import DAY, EventCounts
from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.minute_file import FIGURES_KEPT, KEPT, Minute, MinuteFigure, MinuteFile
from crossline.observe.objectives.recorder import Recorder
from crossline.settings.process.slo import SloSettings

START = 29_800_000
SLO = SloSettings.model_validate({"lag": {"under": "5s"}, "availability": {}})


class Clock:
    def __init__(self) -> None:
        self.ms = START * 60_000

    def __call__(self) -> int:
        return self.ms


def counted(file: MinuteFile, name: str, end: int, span: int) -> EventCounts:
    held = {each.name: each.held for each in objectives_of(SLO)}[name]
    return file.counts(name, held, end, [span])[span]


def test_a_minute_is_known_once_it_is_over_and_written(tmp_path: Path) -> None:
    clock, file = Clock(), MinuteFile(tmp_path / "out" / "slo.db", "payments")
    recorder = Recorder(file, objectives_of(SLO), clock, {"lag"})
    assert counted(file, "lag", START + 1, 60) == EventCounts(), "there is no file yet"
    recorder.add("lag", 1, 1)
    recorder.add("lag", 0, 1)
    recorder.add("nothing", 0, 1)
    assert not recorder.over()
    clock.ms += 60_000
    assert recorder.over()
    recorder.flush()
    assert not recorder.over()
    assert counted(file, "lag", START + 1, 60) == EventCounts(1, 2, 1)
    assert counted(file, "availability", START + 1, 60) == EventCounts(0, 0, 1), "no request is not unknown"
    clock.ms += 60_000
    recorder.flush()  # lag was not read in this one: it is unknown
    assert counted(file, "lag", START + 2, 60) == EventCounts(1, 2, 1)
    assert counted(file, "availability", START + 2, 60) == EventCounts(0, 0, 2)
    assert (recorder.events, recorder.bad) == ({"lag": 2, "availability": 0}, {"lag": 1, "availability": 0})
    assert stat.S_IMODE((tmp_path / "out" / "slo.db").stat().st_mode) == 0o600


def test_processes_and_restarts_add_up(tmp_path: Path) -> None:
    clock = Clock()
    for good in (3, 4):
        recorder = Recorder(MinuteFile(tmp_path / "slo.db", "payments"), objectives_of(SLO), clock)
        recorder.add("availability", good, 5)
        recorder.figure("records", 10.0)
        recorder.figure("lag_ms", 100.0 * good, peak=True)
        recorder.figure("lag_ms", 50.0, peak=True)
        recorder.flush()
    file = MinuteFile(tmp_path / "slo.db", "payments")
    assert counted(file, "availability", START + 1, 60) == EventCounts(7, 10, 1)
    assert file.figures(START, START + 1) == {"records": {START: 20.0}, "lag_ms": {START: 400.0}}
    assert file.figures(START + 1, START + 2) == {}


def test_pipelines_of_one_folder_do_not_mix(tmp_path: Path) -> None:
    mine, other = (MinuteFile(tmp_path / "slo.db", name) for name in ("payments", "logins"))
    for file, good in ((mine, 1), (other, 0)):
        file.add([Minute("lag", "5000", START, good, 1)], [MinuteFigure("records", START, 5.0 + good)], START)
    assert (counted(mine, "lag", START + 1, 60), counted(other, "lag", START + 1, 60)) == (
        EventCounts(1, 1, 1),
        EventCounts(0, 1, 1),
    )
    assert other.figures(START, START + 1) == {"records": {START: 5.0}}


def test_counts_under_another_limit_are_others(tmp_path: Path) -> None:
    file = MinuteFile(tmp_path / "slo.db", "payments")
    file.add([Minute("lag", "9000", START, 1, 1)], [], START)
    assert counted(file, "lag", START + 1, 60) == EventCounts()


def test_the_file_is_bounded(tmp_path: Path) -> None:
    file = MinuteFile(tmp_path / "slo.db", "payments")
    for minute in range(START, START + KEPT + 5 * DAY, DAY // 2):
        file.add([Minute("lag", "5000", minute, 1, 1)], [MinuteFigure("records", minute, 1.0)], minute)
    with sqlite3.connect(tmp_path / "slo.db") as db:
        (counts,) = db.execute("SELECT COUNT(*) FROM counts").fetchone()
        (figures,) = db.execute("SELECT COUNT(*) FROM figures").fetchone()
    db.close()
    assert counts == KEPT // (DAY // 2) + 1
    assert figures == FIGURES_KEPT // (DAY // 2) + 1


def test_what_cannot_be_written_stays_unknown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock, path = Clock(), tmp_path / "slo.db"
    path.write_text("no database, and long enough to be looked at")
    path.chmod(0o600)
    recorder = Recorder(MinuteFile(path, "payments"), objectives_of(SLO), clock)
    recorder.add("availability", 1, 1)
    recorder.flush()
    assert "it stays unknown" in "".join(capsys.readouterr())
    with pytest.raises(StateError, match="found what is no database"):
        counted(MinuteFile(path, "payments"), "availability", START + 1, 60)
    path.unlink()
    recorder.add("availability", 1, 1)
    recorder.flush()
    assert counted(MinuteFile(path, "payments"), "availability", START + 1, 60) == EventCounts(1, 1, 1)
