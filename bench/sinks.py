"""All sinks of a pipeline at once: Redis, PostgreSQL, decisions, metrics for Prometheus.

``python -m bench.sinks [--records N] [--quick]`` measures how fast a pipeline reads the backlog of a topic, for each
set of sinks. R5 over a real broker. Each run has a process and servers of its own.
"""

from __future__ import annotations

import argparse
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import orjson
import yaml
from dev.services.broker import LocalBroker
from dev.services.postgres import LocalPostgres
from dev.services.redis import LocalRedis
from dev.services.registry import LocalRegistry
from dev.services.supervision import HOST, free_ports

from bench.report import Report, median, percentile, say
from bench.runs import Run, medians, run_child
from bench.workload import STREAM, rule_set, write_pipeline
from crossline.runtime.machine.temporary_folders import own_folder_for

PARTITIONS = 2
EVENTS_PER_S = 2_000
SCRAPE_EVERY_S = 5.0
ANSWER_S_MAX = 10.0
# Where alerts go, and whether records are Avro.
CASES = {"kafka": ("kafka", False), "redis": ("redis", False), "all": ("all", False), "all-avro": ("all", True)}
_SHOWN = ("crossline_sink_", "crossline_source_waiting", "crossline_records_total", "crossline_ready")
POLICY = {"schema_version": 1, "version": 1, "decide": [{"when": "hits >= 1", "decision": "review"}]}


@dataclass(slots=True)
class SinkSetup:
    """What a pipeline is given besides its source and rules: ``sinks``, and settings of its own."""

    sinks: list[dict[str, Any]]
    settings: dict[str, Any] = field(default_factory=dict)
    pids: dict[str, int] = field(default_factory=dict)
    watch_port: int | None = None


@contextmanager
def sink_setup(
    broker: LocalBroker, which: str, behind: Sequence[str] = (), *, rewrites: bool = True
) -> Iterator[SinkSetup]:
    """``which`` is ``kafka``: alerts to a topic. ``redis``: to Redis too. ``all``: to PostgreSQL too, and decisions.

    ``behind``: kinds of sinks that no batch waits for. ``rewrites``: whether Redis rewrites its append-only file
    meanwhile, in a process of its own.
    """
    kafka = {"kind": "kafka", "brokers": broker.brokers, "topic": "alerts"}
    with ExitStack() as stack:
        found = SinkSetup([kafka])
        if which in {"redis", "all"}:
            redis = stack.enter_context(LocalRedis())
            if not rewrites:
                with redis.client() as client:
                    client.config_set("auto-aof-rewrite-percentage", 0)
            found.sinks.append({"kind": "redis", "port": redis.port})
            found.pids["redis"] = redis.pid or 0
        if which == "all":
            postgres = stack.enter_context(LocalPostgres())
            where = {"host": postgres.host, "port": postgres.port, "user": postgres.user, "dbname": postgres.dbname}
            found.sinks.append({"kind": "postgres", **where, "password_file": str(postgres.password_file)})
            found.pids["postgres"] = postgres.pid or 0
            kafka |= {"topics": ["decisions"], "dead_letter_topic": "dead"}
            for topic in ("decisions", "dead"):
                broker.create_topic(topic)
            (found.watch_port,) = free_ports()
            watch = {"listen": f"{HOST}:{found.watch_port}"}
            found.settings = {"policy": "policy.yaml", "decisions": {"sink_topic": "decisions"}, "watch": watch}
        for sink in found.sinks:
            if sink["kind"] in behind:
                sink["behind"] = True
        yield found


def write(
    folder: Path, broker: LocalBroker, given: SinkSetup, registry: str | None, trigger: str = "0s", **engine: Any
) -> Path:
    """Write the pipeline of R5 with these sinks; its records are Avro if there is a ``registry``."""
    source: dict[str, Any] = {"kind": "kafka", "brokers": broker.brokers, "topic": STREAM}
    if registry is not None:
        source["registry"] = {"url": registry}
    path = write_pipeline(
        folder,
        rule_set("R5"),
        source,
        sinks=given.sinks,
        engine={"trigger": trigger, **engine},
        form="json" if registry is None else "avro",
        more=given.settings,
    )
    (folder / "policy.yaml").write_text(yaml.safe_dump(POLICY), encoding="utf-8")
    return path


@dataclass(slots=True)
class Scraper:
    """Reads ``/metrics`` now and then, as a Prometheus does, and notes how long that takes."""

    port: int
    took_ms: list[float] = field(default_factory=list)
    page: str = ""
    _stop: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def scraping(self) -> Iterator[None]:
        """Scrape meanwhile."""
        thread = threading.Thread(target=self._run, daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _run(self) -> None:
        while not self._stop.wait(SCRAPE_EVERY_S):
            began_s = time.monotonic()
            connection = HTTPConnection(HOST, self.port, timeout=ANSWER_S_MAX)
            try:
                connection.request("GET", "/metrics")
                self.page = connection.getresponse().read().decode()
                self.took_ms.append((time.monotonic() - began_s) * 1e3)
            except (OSError, HTTPException):
                continue
            finally:
                connection.close()

    def notes(self) -> list[str]:
        """The last page, and its duration."""
        if not self.took_ms:
            return ["the metrics page was never read"]
        lines = [line for line in self.page.splitlines() if line and not line.startswith("#")]
        figures = dict(line.rsplit(" ", 1) for line in lines)
        kept = {
            name.removeprefix("crossline_"): value
            for name, value in figures.items()
            if name.startswith(_SHOWN) and "_bucket" not in name and float(value)
        }
        shown = ", ".join(f"{name} {float(value):g}" for name, value in kept.items())
        took = f"median {median(self.took_ms):.1f} ms, longest {max(self.took_ms):.1f} ms"
        share = percentile(self.took_ms, 0.9)
        return [
            f"/metrics, {len(lines)} lines, was read {len(self.took_ms)} times meanwhile: {took}, p90 {share:.1f} ms",
            f"  its last answer: {shown}",
        ]


def fill(broker: LocalBroker, records: int, registry: str | None) -> None:
    """Send the records, as fast as it goes; their own times lie ahead of that, so that none is late."""
    arguments = ["generate", "tx", "--records", str(records), "--brokers", broker.brokers, "--topic", STREAM]
    arguments += ["--base-time", "now", "--event-rate", str(EVENTS_PER_S)]
    run_child([*arguments, *(["--registry", registry] if registry else [])], "crossline.cli.main")


def drain(which: str, records: int, *, avro: bool) -> Run:
    """One run through ``records`` that wait in a topic."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder_for("bench"))
        broker = stack.enter_context(LocalBroker())
        registry = stack.enter_context(LocalRegistry()).url if avro else None
        broker.create_topic(STREAM, PARTITIONS)
        broker.create_topic("alerts")
        fill(broker, records, registry)
        given = stack.enter_context(sink_setup(broker, which))
        out = folder / "figures.json"
        path = write(folder / "p", broker, given, registry, max_batch_records=min(300_000, records // 8))
        run_child([str(path), str(out), "--records", str(records)])
        return Run(orjson.loads(out.read_bytes()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=2_000_000)
    parser.add_argument("--runs", type=int, default=3, help="runs of each case; the cases take turns")
    parser.add_argument("--only", default=",".join(CASES), help="cases to run, separated by commas")
    parser.add_argument("--quick", action="store_true", help="one run of 600,000 records")
    options = parser.parse_args()
    records, turns = (600_000, 1) if options.quick else (options.records, options.runs)
    cases = options.only.split(",")
    if unknown := [each for each in cases if each not in CASES]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(CASES)}")
    report = Report("sinks", f"R5, {records:,} records that wait in a topic of Kafka, by where alerts go")
    runs: dict[str, list[Run]] = {each: [] for each in cases}
    for turn in range(turns):
        for case in cases:
            which, avro = CASES[case]
            done = drain(which, records, avro=avro)
            say(f"turn {turn + 1}, {case}: {done.steady_rate():,.0f} records/s")
            runs[case].append(done)
    for case, those in runs.items():
        which, avro = CASES[case]
        cpu = medians([run.cpu_us_per_record() for run in those])
        deliver = medians([medians([batch["wall_ms"] | batch["after_ms"] for batch in run.batches]) for run in those])
        report.add(
            alerts_to=which,
            records_as="Avro" if avro else "JSON",
            steady_per_s=median([run.steady_rate() for run in those]),
            cpu_us_per_record=cpu["all"],
            alerts=those[0].alerts,
            batches=len(those[0].batches),
            deliver_ms=deliver.get("deliver"),
        )
    report.notes.append(
        "all: Kafka, Redis, PostgreSQL, and decisions on records with hits to each, figures for Prometheus"
    )
    report.finish()


if __name__ == "__main__":
    main()
