"""A real Prometheus takes the files of deploy/watch: its rules fire, and every query of the dashboard has an answer.

It is built by ``make prometheus``, which then runs this; elsewhere the expressions are parsed, in test_watched.py.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from crossline.observe.objectives.declaration import objectives_of
from crossline.observe.objectives.prometheus import rules_of
from crossline.observe.telemetry import Telemetry
from crossline.observe.watch.run_watch import RunWatch
from crossline.settings.process.slo import SloSettings
from crossline.settings.watch import WatchSettings

from .project import Project
from .scraping import DEPLOY, WAIT_S, alerting_rules, dashboard_expressions
from .test_watched import OFTEN, PAIRS, POLICY, SINKS
from .traffic import STREAM, lines, records

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FOLDER = os.environ.get("CROSSLINE_PROMETHEUS")
HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(FOLDER is None, reason="make prometheus builds one, which takes minutes")
# There is no topic, no rule that corrects, and every batch waits for every sink.
WITHOUT = ("crossline_source_waiting_records", 'kind="correction"', "crossline_sink_backlog_seconds")


def command(name: str) -> str:
    return str(Path(str(FOLDER)) / name)


def test_rules_fire_where_they_should(tmp_path: Path) -> None:
    for source in (*DEPLOY.glob("*.yaml"), *HERE.glob("*_test.yaml")):
        shutil.copy(source, tmp_path)
    promised = objectives_of(SloSettings.model_validate({"lag": {"under": "5s"}, "availability": {"percent": 99.95}}))
    (tmp_path / "slo.yaml").write_text(rules_of("shop", promised))
    for arguments in (
        ["check", "config", "prometheus.yaml"],
        ["check", "rules", "--lint-fatal", "slo.yaml"],
        ["test", "rules", "alerts_test.yaml", "slo_test.yaml"],
    ):
        done = subprocess.run(
            [command("promtool"), *arguments], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
    tested = (HERE / "alerts_test.yaml").read_text()
    rules = [*alerting_rules(), *alerting_rules("api-alerts.yaml")]
    assert [rule["alert"] for rule in rules if f'"{rule["alert"]}"' not in tested] == []


class Prometheus:
    """One that scrapes ``target`` each half second."""

    def __init__(self, folder: Path, target: str) -> None:
        config = yaml.safe_load((DEPLOY / "prometheus.yaml").read_text())
        config["global"] = {"scrape_interval": "500ms", "evaluation_interval": "500ms"}
        config["scrape_configs"] = config["scrape_configs"][:1]
        config["scrape_configs"][0]["static_configs"][0]["targets"] = [target]
        folder.mkdir()
        (folder / "prometheus.yaml").write_text(yaml.safe_dump(config))
        for name in config["rule_files"]:
            shutil.copy(DEPLOY / name, folder)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self._place = f"127.0.0.1:{free.getsockname()[1]}"
        options = [f"--web.listen-address={self._place}", "--storage.tsdb.path=data", "--config.file=prometheus.yaml"]
        self._log = (folder / "log").open("w")
        self._process = subprocess.Popen(
            [command("prometheus"), *options], cwd=folder, stdout=self._log, stderr=self._log
        )

    def ask(self, path: str, **values: str) -> Any:
        """What it answers; None while it does not."""
        try:
            with urllib.request.urlopen(
                f"http://{self._place}{path}?{urllib.parse.urlencode(values)}", timeout=30
            ) as found:
                return json.load(found)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from None
        except OSError:
            return None

    def until(self, path: str, done: Any, **values: str) -> Any:
        deadline_s = time.monotonic() + WAIT_S
        while time.monotonic() < deadline_s:
            assert self._process.poll() is None, Path(self._log.name).read_text()
            found = self.ask(path, **values)
            if found is not None and done(found):
                return found
            time.sleep(0.2)
        raise AssertionError(f"{path} {values}: {found}")

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(60)
        self._log.close()


@pytest.fixture
def watch() -> Iterator[RunWatch]:
    """Its stream has the clock of the records; the test gives it a broker's clock, to have latencies."""
    watch = RunWatch(WatchSettings(listen="0"), "shop", {STREAM: "wall"})
    yield watch
    watch.close()


@pytest.mark.spark
@pytest.mark.xdist_group("shared")
def test_a_run_is_scraped(spark: SparkSession, tmp_path: Path, watch: RunWatch) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    project = Project(tmp_path, [OFTEN, PAIRS], sinks=SINKS, policy="policy.yaml")
    log = records(240, seed=5)
    prometheus = Prometheus(tmp_path / "prometheus", str(watch.place))
    try:
        with project.start(spark, watch=Telemetry(watch, None)) as running:
            prometheus.until("/api/v1/query", lambda body: body["result"], query="crossline_ready")
            for number, first in enumerate(range(0, 240, 80)):
                project.give(f"{number}.jsonl", lines(log[first : first + 80]) + b"{\n")
                running.until_read(first + 81 + number)
            query = f'crossline_records_total{{stream="{STREAM}"}} == 240'
            prometheus.until("/api/v1/query", lambda body: body["result"], query=query)
            for expression in dashboard_expressions():
                if not any(name in expression for name in WITHOUT):
                    prometheus.until("/api/v1/query", lambda body: body["result"], query=expression)
            for name in WITHOUT:
                assert any(name in expression for expression in dashboard_expressions())
            every = lambda body: all(rule["lastEvaluation"] > "0002" for rule in body["groups"][0]["rules"])  # noqa: E731
            (group,) = prometheus.until("/api/v1/rules", every)["groups"]
            assert {(rule["health"], rule.get("lastError", "")) for rule in group["rules"]} == {("ok", "")}
            tripped = lambda body: "CrosslineRuleTripped" in {each["labels"]["alertname"] for each in body["alerts"]}  # noqa: E731
            prometheus.until("/api/v1/alerts", tripped)
    finally:
        prometheus.close()
