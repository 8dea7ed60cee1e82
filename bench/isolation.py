"""Measures whether a storm of one key slows the others: ``python -m bench.isolation [--rate 2000] [--storm 4000]``.

One pipeline with rules R5, from Kafka to a consumer that has read the alert, as in ``bench.latency``. Three phases take
turns: the load alone; the load and a storm, in which one account sends ``--storm`` records per second; the load and as
many more records of all accounts. The load is the same open loop in all phases. Only alerts at its records of other
accounts count. The cost of a storm, beyond that of any records, is the second phase against the third.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
from confluent_kafka import TopicPartition
from dev.services.broker import LocalBroker

from bench.latency import Bench, Phase, await_start, consumer, end_offsets, process, settle
from bench.report import Report, percentile, say
from bench.runs import LOG_TAIL
from bench.workload import STREAM, rule_set, write_pipeline
from crossline.generate.kafka import SENT_HEADER
from crossline.generate.tx import TxWorkload
from crossline.runtime.machine.temporary_folders import own_folder_for

STORM_FIRST = 5_000_000  # numbers of what is sent beside the load, whose own lie below
STORM_ACCOUNT = "a0000000"
LEAD_S = 4.0  # the storm has begun before the load does, and ends after it
SETTLE_S = 1.0
RATIO_MAX = 2.0


@dataclass(slots=True)
class Turn:
    """A phase of the load, and what is sent beside it: ``beside`` accounts send ``beside_rate`` records a second."""

    name: str
    phase: Phase
    beside_rate: int = 0
    beside: int = 0
    sent_beside: int = 0


def turns(rate: int, storm: int, seconds: float, warm_s: float, rounds: int) -> list[Turn]:
    """The load alone, with a storm, with as many more of all; the first is preceded by one that is not counted."""
    found: list[Turn] = []
    first = 0
    kinds = [
        ("warming", 0, 0),
        *[("alone", 0, 0), ("storm of one key", storm, 1), ("as many of all", storm, 50_000)] * rounds,
    ]
    for name, beside_rate, accounts in kinds:
        own_warm_s = 0.0 if name == "warming" else warm_s / 3
        lasts_s = warm_s if name == "warming" else seconds + own_warm_s
        phase = Phase(rate, first, int(rate * lasts_s), own_warm_s)
        found.append(Turn(name, phase, beside_rate, accounts))
        first += phase.count
    return found


def run(turn: Turn, bench: Bench, beside_first: int) -> None:
    """Send it, and note when its first record was due."""
    phase = turn.phase
    with ExitStack() as stack:
        if turn.beside_rate:
            turn.sent_beside = int(turn.beside_rate * (phase.count / phase.rate + 2 * LEAD_S))
            arguments = _arguments(bench, turn.beside_rate, turn.sent_beside, beside_first)
            log = bench.folder / "beside.log"
            beside = stack.enter_context(
                process("crossline.cli.main", *arguments, "--accounts", str(turn.beside), log=log)
            )
            time.sleep(LEAD_S)
        before = end_offsets(bench.brokers)
        arguments = _arguments(bench, phase.rate, phase.count, phase.first)
        log = bench.folder / "load.log"
        load = stack.enter_context(process("crossline.cli.main", *arguments, "--json", log=log))
        phase.began_us = first_sent_us(bench.brokers, before, phase)
        if load.wait() != 0:
            raise SystemExit(f"the load failed:\n{log.read_text(encoding='utf-8')[-LOG_TAIL:]}")
        phase.behind_ms = orjson.loads(log.read_text(encoding="utf-8").splitlines()[-1])["behind_ms_max"]
        if turn.beside_rate:
            beside.wait()


def first_sent_us(brokers: str, offsets: Mapping[int, int], phase: Phase) -> float:
    """When the phase's first record was due: its records say when each was, and they are evenly spaced."""
    looking = consumer(brokers)
    looking.assign([TopicPartition(STREAM, partition, offset) for partition, offset in offsets.items()])
    try:
        while True:
            message = looking.poll(1.0)
            if message is None or message.error():
                continue
            number = int(orjson.loads(message.value())["transaction_id"][1:])
            if number < STORM_FIRST:
                sent_us = float(dict(message.headers())[SENT_HEADER])
                return sent_us - (number - phase.first) * 1e6 / phase.rate
    finally:
        looking.close()


def _arguments(bench: Bench, rate: int, count: int, first: int) -> list[str]:
    """Of ``crossline generate``: event times are about those of the sending."""
    base = datetime.fromtimestamp(time.time() - first / rate, UTC).isoformat(timespec="milliseconds")
    arguments = ["generate", "tx", "--records", str(count), "--start", str(first), "--rate", str(rate)]
    arguments += ["--event-rate", str(rate), "--base-time", base, "--disorder-ms", "2000"]
    return [*arguments, "--brokers", bench.brokers, "--topic", STREAM]


def measure(planned: Sequence[Turn]) -> list[Mapping[str, Any]]:
    """Run all turns with one pipeline; the alerts that the consumer read."""
    with ExitStack() as stack:
        folder = stack.enter_context(own_folder_for("bench"))
        broker = stack.enter_context(LocalBroker())
        broker.create_topic(STREAM, 2)
        broker.create_topic("alerts")
        source = {"kind": "kafka", "brokers": broker.brokers, "topic": STREAM}
        sinks = [{"kind": "kafka", "brokers": broker.brokers, "topic": "alerts"}]
        pipeline = write_pipeline(folder / "pipeline", rule_set("R5"), source, sinks=sinks)
        bench, received = Bench(folder, broker.brokers), folder / "received.jsonl"
        stack.enter_context(
            process("bench.alert_listener", broker.brokers, "alerts", str(received), log=folder / "listen.log")
        )
        log = folder / "run.log"
        with process(
            "bench.pipeline_process", str(pipeline), str(folder / "figures.json"), "--serve", log=log
        ) as running:
            await_start(bench, running, log)
            sent, beside_first = 0, STORM_FIRST
            for turn in planned:
                say(f"{turn.name}: {turn.phase.rate:,} records/s, and {turn.beside_rate:,} beside")
                run(turn, bench, beside_first)
                beside_first += turn.sent_beside
                sent += turn.phase.count + turn.sent_beside
                settle(bench, sent)
                time.sleep(SETTLE_S)
        lines = received.read_bytes().splitlines(keepends=True)
        return [orjson.loads(line) for line in lines if line.endswith(b"\n")]


def latencies_ms(turn: Turn, alerts: Sequence[Mapping[str, Any]]) -> list[float]:
    """Of the alerts at records of the turn's load that are of other accounts than the storm's."""
    accounts = _accounts(turn.phase)
    found = []
    for alert in alerts:
        number = int(alert["record_id"][1:])
        if turn.phase.measured(number) and accounts[number - turn.phase.first] != STORM_ACCOUNT:
            found.append((alert["received_us"] - turn.phase.due_us(number)) / 1e3)
    return found


def _accounts(phase: Phase) -> list[str]:
    return list(TxWorkload(rate_per_s=phase.rate).records(phase.first, phase.count)["account_id"].to_pylist())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=2_000, help="records per second of the load")
    parser.add_argument("--storm", type=int, default=4_000, help="records per second of the one account")
    parser.add_argument("--seconds", type=float, default=60, help="measured seconds of each phase")
    parser.add_argument(
        "--warm-s", type=float, default=60, help="warm-up before the first phase; a third of it before the others"
    )
    parser.add_argument("--rounds", type=int, default=2, help="repetitions of the three phases")
    parser.add_argument("--quick", action="store_true", help="one round of 20 s after a warm-up of 20 s")
    options = parser.parse_args()
    seconds, warm_s, rounds = (20.0, 20.0, 1) if options.quick else (options.seconds, options.warm_s, options.rounds)
    report = Report(
        "isolation",
        f"alerts of other accounts at {options.rate:,} records/s while one account sends {options.storm:,}/s more, R5",
    )
    planned = turns(options.rate, options.storm, seconds, warm_s, rounds)
    alerts = measure(planned)
    p99s: dict[str, list[float]] = {}
    for turn in planned[1:]:
        ms = latencies_ms(turn, alerts)
        shown = {f"p{share}_ms": percentile(ms, share / 100) for share in (50, 90, 99)} if ms else {}
        report.add(
            phase=turn.name,
            alerts=len(ms),
            **shown,
            beside_per_s=turn.beside_rate,
            load_behind_ms_max=turn.phase.behind_ms,
        )
        p99s.setdefault(turn.name, []).append(shown.get("p99_ms", float("nan")))
    middle = {name: sorted(values)[len(values) // 2] for name, values in p99s.items()}
    for other in ("alone", "as many of all"):
        ratio = middle["storm of one key"] / middle[other]
        verdict = "" if other != "alone" else f"; asked for: at most {RATIO_MAX:g}"
        report.notes.append(
            f"p99 under a storm of one key is {ratio:.2f} times that of the load {_title(other)}{verdict}"
        )
    report.finish()


def _title(name: str) -> str:
    return "alone" if name == "alone" else "beside as many records of all accounts"


if __name__ == "__main__":
    main()
