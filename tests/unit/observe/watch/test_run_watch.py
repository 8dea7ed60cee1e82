"""The HTTP endpoints of a run answer whatever Java and brokers do; the rule files are valid for Prometheus."""

from __future__ import annotations

import http.client
import json
import select
import socket
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import promql_parser
import pytest
import yaml

from crossline.basics.errors import UsageError
from crossline.io.sinks.base import Sink
from crossline.observe.watch import listener as listening
from crossline.observe.watch import run_watch as module
from crossline.observe.watch.disk_usage import disk_usage_of
from crossline.observe.watch.listener import HttpListener, HttpPage
from crossline.observe.watch.run_watch import RunWatch
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.settings.watch import Address, WatchSettings, place_of

DEPLOY = Path(__file__).parents[4] / "deploy" / "watch"


class Stuck:
    """A pipeline whose Java says nothing until it is let go."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self.sinks: Sequence[Sink] = ()

    @property
    def alive(self) -> bool:
        self.asked.set()
        self.released.wait(60)
        raise OSError("gone")

    def standing(self) -> PipelineStatus:
        return PipelineStatus(started=True, rules={"active": 1})

    def waiting(self) -> list[SourceBacklog]:
        return []


class Cut:
    """A pipeline that lives, and cannot ask its brokers until it is let go."""

    def __init__(self) -> None:
        self.asked, self.released = threading.Event(), threading.Event()
        self.sinks: Sequence[Sink] = ()
        self.alive = True

    def standing(self) -> PipelineStatus:
        return PipelineStatus(started=True, rules={"active": 1})

    def waiting(self) -> list[SourceBacklog]:
        self.asked.set()
        self.released.wait(60)
        raise OSError("no broker")


def test_brokers_that_do_not_answer_restart_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    watch, pipeline = RunWatch(WatchSettings(listen="0"), "p", {}), Cut()
    try:
        watch.follow(pipeline)
        assert pipeline.asked.wait(30)
        later_s = time.monotonic() + 600  # each source may take its time
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: later_s, time=time.time))
        assert watch.healthz().ok
    finally:
        pipeline.released.set()
        watch.close()


def test_a_page_waits_for_nobody() -> None:
    watch, pipeline = RunWatch(WatchSettings(listen="0"), "p", {}), Stuck()
    try:
        watch.follow(pipeline)
        assert pipeline.asked.wait(30)
        assert watch.healthz().ok
        assert watch._asked_s is not None
        watch._asked_s -= 60.0
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"http://{watch.place}/healthz", timeout=30)
        assert caught.value.code == 503
        (reason,) = json.load(caught.value)["reasons"]
        assert reason.startswith("Java has not answered for")
        with urllib.request.urlopen(f"http://{watch.place}/metrics", timeout=30) as answer:
            assert b"crossline_ready 0.0" in answer.read()
    finally:
        pipeline.released.set()
        watch.close()
    assert not watch.healthz().ok


def test_a_place_that_is_taken_is_reported() -> None:
    watch = RunWatch(WatchSettings(listen="0"), "p", {})
    try:
        settings = WatchSettings(listen=str(watch.place))
        with pytest.raises(UsageError, match=rf"cannot listen at 127\.0\.0\.1:{watch.place.port}: .*watch\.listen"):
            RunWatch(settings, "q", {})
    finally:
        watch.close()
    with pytest.raises(UsageError, match=r"cannot listen at 192\.0\.2\.1:1: "):
        RunWatch(WatchSettings(listen="192.0.2.1:1"), "q", {})


def test_other_paths_methods_and_faults() -> None:
    def fails(_: str) -> HttpPage:
        raise ValueError("secret")

    pages: dict[str, Callable[[str], HttpPage]] = {"/ok": lambda _: HttpPage(b"yes", "text/plain"), "/bad": fails}
    listener = HttpListener(Address("127.0.0.1", 0), pages)

    def ask(method: str, path: str) -> tuple[int, bytes]:
        client = http.client.HTTPConnection("127.0.0.1", listener.place.port, timeout=30)
        client.request(method, path)
        answer = client.getresponse()
        found = answer.status, answer.read()
        client.close()
        return found

    try:
        assert ask("GET", "/ok?x=1") == (200, b"yes")
        assert ask("HEAD", "/ok") == (200, b"")
        assert ask("GET", "/") == (404, b"found no '/'; expected /ok, /bad\n")
        assert ask("POST", "/ok")[0] == 501
        assert ask("GET", "/bad") == (500, b"it could not be made: see the log\n")
    finally:
        listener.close()


def answered(listener: HttpListener) -> bool:
    """Whether a request now gets the page."""
    try:
        with urllib.request.urlopen(f"http://{listener.place}/ok", timeout=60) as answer:
            return bool(answer.read() == b"yes")
    except OSError:
        return False


def test_clients_that_say_nothing_take_no_more_than_their_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "CLIENTS_MAX", 3)
    monkeypatch.setattr(listening, "REQUEST_S_MAX", 600.0)
    monkeypatch.setattr(listening._Handler, "timeout", 600.0)
    listener = HttpListener(Address("127.0.0.1", 0), {"/ok": lambda _: HttpPage(b"yes", "text/plain")})
    try:
        silent = [socket.create_connection((listener.place.host, listener.place.port)) for _ in range(3)]
        while answered(listener):  # until all three are met
            pass
        for each in silent:
            each.close()
        while not answered(listener):
            pass
    finally:
        listener.close()


def test_a_client_that_dribbles_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "REQUEST_S_MAX", 0.05)
    listener = HttpListener(Address("127.0.0.1", 0), {"/ok": lambda _: HttpPage(b"yes", "text/plain")})
    try:
        with socket.create_connection((listener.place.host, listener.place.port)) as slow, suppress(ConnectionError):
            slow.settimeout(60)
            while True:
                slow.sendall(b"G")
                select.select([slow], [], [], 0.01)
                if select.select([slow], [], [], 0)[0] and slow.recv(1) == b"":
                    break
    finally:
        listener.close()


@pytest.mark.parametrize(
    ("text", "place", "loopback"),
    [
        ("9464", "127.0.0.1:9464", True),
        (":9464", "127.0.0.1:9464", True),
        ("[::1]:0", "[::1]:0", True),
        ("localhost:1", "localhost:1", True),
        ("0.0.0.0:9464", "0.0.0.0:9464", False),
        ("[::]:9464", "[::]:9464", False),
        ("watch.bank.example:80", "watch.bank.example:80", False),
    ],
)
def test_places(text: str, place: str, *, loopback: bool) -> None:
    found = place_of(text)
    assert found is not None
    assert (str(found), found.loopback) == (place, loopback)


@pytest.mark.parametrize("text", ["", "x", "127.0.0.1", "127.0.0.1:99999", "[zz]:1", "a b:1", "::1:9464", "٣"])
def test_what_is_no_place(text: str) -> None:
    assert place_of(text) is None


def test_space(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x.seg").write_bytes(b"1234")
    (tmp_path / "y.seg").write_bytes(b"12")
    (tmp_path / "loop").symlink_to(tmp_path)
    found = disk_usage_of(str(tmp_path / "a"))
    assert (found.size, found.files, found.newest_s is not None) == (4, 1, True)
    assert disk_usage_of(str(tmp_path)).files == 3, "a link is not followed"
    assert [disk_usage_of(root).files for root in ("", "s3://bucket/state", str(tmp_path / "none"))] == [0, 0, 0]


@pytest.mark.parametrize(("file", "least"), [("alerts.yaml", 10), ("api-alerts.yaml", 6)])
def test_the_alerting_rules_are_what_prometheus_takes(file: str, least: int) -> None:
    (group,) = yaml.safe_load((DEPLOY / file).read_text())["groups"]
    assert set(group) == {"name", "rules"}
    names = [rule["alert"] for rule in group["rules"]]
    assert len(set(names)) == len(names) > least
    for rule in group["rules"]:
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}, rule
        promql_parser.parse(rule["expr"])
        promql_parser.parse_duration(rule.get("for", "1m"))
        assert rule["labels"]["severity"] in {"warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "do"}
    with pytest.raises(ValueError, match="unclosed"):
        promql_parser.parse("sum by (rate(")


def test_the_dashboard_hangs_together() -> None:
    board: dict[str, Any] = json.loads((DEPLOY / "dashboard.json").read_text())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels]
    assert len(set(places)) == len(places)
    variables = {each["name"] for each in board["templating"]["list"]}
    for panel in panels:
        assert [target["refId"] for target in panel["targets"]] == list("ABCDEFGH")[: len(panel["targets"])]
        assert panel["datasource"]["uid"] == "${source}"
    assert variables == {"source", "instance"}
    scrape = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
    assert scrape["rule_files"] == ["alerts.yaml", "api-alerts.yaml"]
    jobs = {job["job_name"]: job["static_configs"][0]["targets"] for job in scrape["scrape_configs"]}
    assert jobs == {"crossline": [WatchSettings().listen], "crossline-api": ["127.0.0.1:9465"]}
