"""State servers beside the driver, as real processes: what follows is there when it judges, and all end with it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import psutil
import pytest

from crossline.runtime.pipeline.driver_standby import DriverStates
from crossline.runtime.stages.shard_judge import ShardJudge
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.workers import state_server, state_servers
from e2e.ended import has_ended
from e2e.state_server_homes import SHARDS, STATE_SERVERS, Home, alerts_in, batches_of, read_of, until
from e2e.traffic import Record
from unit.runtime.workers.test_zygote import running


@pytest.fixture(scope="module")
def zygote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running(tmp_path_factory.mktemp("zygote"), "--own-state-servers") as (path, _):
        yield path


class Driver:
    """What the driver has: the states beside it, and a process that has them judge."""

    def __init__(self, zygote: Path, folder: Path, home: Home) -> None:
        self.stopping = threading.Event()
        self.states = DriverStates(lambda: zygote, folder, STATE_SERVERS, self.stopping)
        self.home = home
        self.cache = replace(home.cache, standby=True)

    def work(self, batch: int) -> ShardJudge:
        return ShardJudge(self.home.source, self.cache, "query", batch)

    def follow(self, batch: int) -> None:
        """Returns once all is read."""
        self.states.follow(self.work(batch), SHARDS)
        until(self._answered)
        place = state_server.announced_folder(self.states.folder)
        assert place is not None
        self.home.place, before = place.folder, self.home.place
        self.home.until_idle()
        self.home.place = before

    def _answered(self) -> bool:
        self.states.begin()
        return not self.states._asked

    def judge(self, batch: int, data: bytes, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
        assert self.states.begin()
        monkeypatch.setattr(state_server, "_place", state_server.announced_folder(self.states.folder))
        monkeypatch.setattr(state_servers, "processors", lambda: STATE_SERVERS)
        given = {shard: [memoryview(b) for b in blobs] for shard, blobs in self.home.parts(batch, data).items()}
        rows = list(state_servers.judge_shards(self.work(batch), given, STATE_SERVERS, Stopwatch(), here=False))
        self.home.alerts[batch] = alerts_in(rows)
        return rows

    def nobody_listens(self) -> bool:
        """A process whose threads end one after the other takes connections for a moment more."""
        place = state_server.announced_folder(self.states.folder)
        return place is None or not any(map(_takes_connections, place.folder.glob("server-*")))

    def processes(self) -> list[psutil.Process]:
        """Those beside the driver: what it asks, what forks, and state servers."""
        place = state_server.announced_folder(self.states.folder)
        if place is None:
            return []
        keeper = psutil.Process(int(place.folder.name.split("-")[1]))  # which made the folder
        return [keeper, *keeper.children(recursive=True)]


def _takes_connections(address: Path) -> bool:
    try:
        state_server._connect(str(address)).close()
    except OSError:
        return False
    return True


@pytest.fixture
def driver(zygote: Path, home: Home) -> Iterator[Driver]:
    with TemporaryDirectory() as folder:  # names of sockets are short
        made = Driver(zygote, Path(folder) / "driver", home)
        yield made
        made.states.end()


def test_what_followed_judges_with_the_last_batch_to_read(
    driver: Driver, home: Home, log: list[Record], twin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Executors judge, are lost, and judge again later: each batch is judged once, on the state of the one before."""
    for number, data in enumerate(batches_of(log)):
        if number in {5, 6, 9}:
            read = read_of(driver.judge(number, data, monkeypatch))
            assert read == ([1] * SHARDS if number in {5, 9} else []), number
        else:
            home.batch(number, data)
            driver.follow(number)
    assert home.figures() == twin


def test_without_a_head_start_the_log_is_read(
    driver: Driver, home: Home, log: list[Record], twin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number, data in enumerate(batches_of(log)):
        if number < 4:
            home.batch(number, data)
        else:
            assert read_of(driver.judge(number, data, monkeypatch)) == ([4] * SHARDS if number == 4 else [])
    assert home.figures() == twin


def test_all_that_dies_is_begun_again(
    driver: Driver, home: Home, log: list[Record], twin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The state servers, what forks them as well, or what the driver asks as well."""
    batches = batches_of(log)
    for number, data in enumerate(batches[:4]):
        home.batch(number, data)
    for number, data in enumerate(batches[4:], 4):
        if number > 4:
            driver.follow(number)
        kept = (2, 1, 0)[(number - 4) % 3]
        killed = driver.processes()[kept:]
        for each in killed:
            each.send_signal(signal.SIGKILL)
        until(lambda left=killed: all(map(has_ended, left)) and driver.nobody_listens())
        if kept == 1:  # what the driver asks forks state servers itself
            driver.follow(number)
        read = read_of(driver.judge(number, data, monkeypatch))
        assert read == ([] if kept == 1 else [number] * SHARDS), number
    assert home.figures() == twin


def test_they_end_with_what_asks_for_them(driver: Driver, home: Home, log: list[Record]) -> None:
    home.batch(0, batches_of(log)[0])
    driver.follow(1)
    place = state_server.announced_folder(driver.states.folder)
    assert place is not None
    left = driver.processes()
    assert len(left) >= 1 + STATE_SERVERS
    driver.states.end()
    until(lambda: all(map(has_ended, left)))
    until(lambda: not place.folder.exists())
    assert state_server.announced_folder(driver.states.folder) is None


def test_a_keeper_that_stands_still_holds_up_nothing(driver: Driver) -> None:
    """It has one request at a time, and nobody waits for its answer."""
    assert driver.states.begin()
    keeper = driver.processes()[0]
    keeper.send_signal(signal.SIGSTOP)
    try:
        for batch in range(1, 1_000):
            driver.states.follow(driver.work(batch), SHARDS)
    finally:
        keeper.send_signal(signal.SIGCONT)
