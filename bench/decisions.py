"""The decision API and a peer system under load: ``python -m bench.decisions [--systems …]``.

The load is an open loop over HTTP with hot keys (workload tx: Zipf), R5 and a policy. The latency of a request counts
from its due time. The systems take turns for ``--rounds`` rounds. Each round starts them anew:

- ``crossline``: ``crossline run --serve``. Records ``beside`` the requests, where a scenario has them, come from Kafka.
- ``redis``: figures in Redis. A stream consumer updates them, a FastAPI service reads them
  (bench/peers/redis_fastapi.py).
- ``redis-inline``: the same, but the request itself updates the figures.
- ``nothing``: a server that answers at once. It shows the cost of the load itself.

The answers to ``bursts`` are compared with exact sliding windows, computed naively (bench/peers/naive.py). The records
of a burst are sent at the same time, so their order is undefined. Therefore the number of each decision in a burst is
compared, not the decision of each record.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

from bench.decisions_systems import SYSTEMS, Running, can_serve
from bench.peers.naive import decisions as exact_decisions
from bench.report import Report, median, percentile, say
from bench.runs import ROOT, environment
from crossline.generate.tx import TxWorkload
from crossline.runtime.java.child_processes import end_with_parent
from crossline.runtime.machine.temporary_folders import own_folder_for

CONNECTIONS = 128
FIRST = 50_000_000  # the records' numbers, and ids, are none of those beside
LEAD_S = 3.0  # until the process of the load has read its records
BURST_EVERY_MS, BURST_OF = 250, 12
SPEND_OF, SPEND_CENTS = 3, 90_000
LOOKED_AT_MAX = 1_000
SHARES = (50, 90, 99, 99.9)


@dataclass(frozen=True, slots=True)
class Scenario:
    """``beside``: records a second from Kafka meanwhile. ``bursts``: of one account, within two milliseconds.

    ``trigger``: the trigger interval of the pipeline. Batches without a pause use the whole machine: requests that wait
    for a batch (`exact`) need that, a replica does not.
    """

    name: str
    rate: int
    mode: str = "peek"
    beside: int = 0
    bursts: bool = False
    trigger: str = "200ms"

    @property
    def asked_of(self) -> frozenset[str]:
        """The systems that support it: only crossline has `exact`, and inline figures have no background load."""
        if self.mode == "exact":
            return frozenset({"crossline"})
        return frozenset({"crossline", "redis"} if self.beside else SYSTEMS)


SCENARIOS = {
    each.name: each
    for each in (
        Scenario("peek-500-beside-2000", 500, beside=2_000),
        Scenario("exact-200-beside-2000", 200, "exact", beside=2_000, trigger="0s"),
        Scenario("peek-2000", 2_000),
        Scenario("bursts", 200, bursts=True),
    )
}


@dataclass(slots=True)
class RequestPlan:
    """What is sent: lines, when each is due, which group each belongs to (None: to none), and how many are warm-up."""

    lines: list[bytes]
    due_ms: list[float]
    groups: list[int | None]
    warm: int
    begin_s: float
    found: dict[str, Any] = field(default_factory=dict)


def made(scenario: Scenario, seconds: float, warm_s: float, begin_s: float) -> RequestPlan:
    """The records of a scenario; event time is when each is due."""
    count = int(scenario.rate * (seconds + warm_s))
    base_ms = int(begin_s * 1e3) - FIRST * 1_000 // scenario.rate
    load = TxWorkload(seed=11, rate_per_s=scenario.rate, disorder_ms=0, base_ms=base_ms)
    lines = load.lines(FIRST, count).splitlines()
    requests = [(number * 1e3 / scenario.rate, line, None) for number, line in enumerate(lines)]
    if scenario.bursts:
        requests += bursts(begin_s, warm_s * 1e3, (seconds + warm_s) * 1e3)
        requests.sort(key=lambda each: each[0])
    due_ms, texts, groups = zip(*requests, strict=True)
    return RequestPlan(list(texts), list(due_ms), list(groups), sum(due < warm_s * 1e3 for due in due_ms), begin_s)


def bursts(begin_s: float, from_ms: float, until_ms: float) -> list[tuple[float, bytes, int | None]]:
    """Of accounts of their own, by turns: many small payments at many merchants, and few dear ones at one."""
    found: list[tuple[float, bytes, int | None]] = []
    for number, start in enumerate(range(int(from_ms), int(until_ms), BURST_EVERY_MS)):
        many = number % 2 == 0
        count, cents = (BURST_OF, 1_000) if many else (SPEND_OF, SPEND_CENTS)
        for each in range(count):
            due_ms = start + each * 2 / count
            record = {
                "transaction_id": f"b{number:06d}-{each:02d}",
                "account_id": f"ab{number:06d}",
                "card_hash": f"{number:016x}",
                "merchant_id": f"mb{number:06d}-{each if many else 0}",
                "amount_cents": cents,
                "currency": "EUR",
                "lat": 0.0,
                "lon": 0.0,
                "event_time": int(begin_s * 1e3) + start,
                "payment_type": "CRD",
            }
            found.append((due_ms, orjson.dumps(record), number))
    return found


def ask(running: Running, scenario: Scenario, requests: RequestPlan, folder: Path) -> None:
    """Run the load, and measure processor time during the measured part."""
    records, spec, out = folder / "asked.jsonl", folder / "spec.json", folder / "answers.json"
    records.write_bytes(b"\n".join(requests.lines))
    path = f"/v1/decisions/payments?mode={scenario.mode}&timeout_ms=5000"
    body = {"host": "127.0.0.1", "port": running.port, "path": path, "records": str(records), "rate": scenario.rate}
    body |= {"connections": CONNECTIONS, "due_ms": requests.due_ms, "begin_s": requests.begin_s, "key": running.key}
    spec.write_bytes(orjson.dumps(body))
    load = subprocess.Popen(
        [sys.executable, "-m", "bench.request_load", str(spec), str(out)],
        cwd=ROOT,
        env=environment(),
        preexec_fn=end_with_parent,  # noqa: PLW1509 - it does no more than one call to the system
    )
    warm_until_s = requests.begin_s + requests.due_ms[requests.warm] / 1e3
    time.sleep(max(0.0, warm_until_s - time.time()))
    before = running.cpu_s()
    if load.wait() != 0:
        raise SystemExit("the load failed")
    after = running.cpu_s()  # after the last answer: a system that is behind has work left
    requests.found = orjson.loads(out.read_bytes())
    requests.found["server_cpu_s"] = {name: after[name] - before.get(name, 0.0) for name in after}


def row(system: str, scenario: Scenario, requests: RequestPlan) -> dict[str, Any]:
    """What is measured, after the warm-up."""
    found, numbers = requests.found, range(requests.warm, len(requests.lines))
    answers = [found["answers"][number] for number in numbers]
    ms = [
        (found["done_s"][number] - found["due_s"][number]) * 1e3
        for number, body in zip(numbers, answers, strict=True)
        if body is not None
    ]
    sent_late = [(found["sent_s"][number] - found["due_s"][number]) * 1e3 for number in numbers]
    ways = Counter("none" if body is None else body[1] if body[0] == 200 else f"status {body[0]}" for body in answers)
    cpu = {name: each * 1e6 / len(answers) for name, each in found["server_cpu_s"].items()}
    return {
        "system": system,
        "scenario": scenario.name,
        "requests": len(answers),
        **{f"p{share:g}_ms": percentile(ms, share / 100) if ms else None for share in SHARES},
        "max_ms": max(ms, default=None),
        "answered": " ".join(f"{way} {count / len(answers):.2%}" for way, count in ways.most_common()),
        **(wrong(requests) if scenario.bursts and system != "nothing" else {}),
        "server_us": round(sum(cpu.values())),
        "load_us": round(found["cpu_s"] * 1e6 / len(requests.lines)),
        "sent_late_p99_ms": round(percentile(sent_late, 0.99), 3),
        "load_apart": found["apart"],
        "cpu_us_by_process": {name: round(each, 1) for name, each in cpu.items() if each >= 1},
    }


def wrong(requests: RequestPlan) -> dict[str, Any]:
    """How many answers differ from exact windows, and of those that should have been more than ``allow``."""
    expected = exact_decisions(map(orjson.loads, requests.lines))
    lines = [None if body is None else body[2] for body in requests.found["answers"]]
    groups: dict[int, list[int]] = {}
    alone = wrong_alone = 0
    for number in range(requests.warm, len(lines)):
        group = requests.groups[number]
        if group is not None:
            groups.setdefault(group, []).append(number)
        else:
            alone, wrong_alone = alone + 1, wrong_alone + (lines[number] != expected[number])
    in_bursts = sum(map(len, groups.values()))
    due = missed = differs = 0
    for numbers in groups.values():
        right, body = (Counter(of[number] for number in numbers) for of in (expected, lines))
        differs += sum((right - body).values())
        due += sum(count for decision, count in right.items() if decision != "allow")
        missed += sum(count for decision, count in (right - body).items() if decision != "allow")
    return {
        "burst_answers": in_bursts,
        "wrong_in_bursts": f"{differs} ({differs / in_bursts:.1%})",
        "holds_missed": f"{missed} of {due}",
        "wrong_else": f"{wrong_alone} of {alone}",
    }


def measure(system: str, scenario: Scenario, seconds: float, warm_s: float) -> dict[str, Any]:
    """One turn: start the system, run the load, end the system."""
    say(f"{system}: {scenario.name}")
    with (
        own_folder_for("bench") as folder,
        SYSTEMS[system](folder, beside=scenario.beside, trigger=scenario.trigger) as running,
    ):
        running.begin_beside(seconds + warm_s + LEAD_S)
        requests = made(scenario, seconds, warm_s, time.time() + LEAD_S)
        ask(running, scenario, requests, folder)
        found = row(system, scenario, requests)
        lines = [each for each in requests.found["answers"][requests.warm :] if each is not None and each[1] == "peek"]
        spread = lines[:: max(1, len(lines) // LOOKED_AT_MAX)]
        return {**found, **running.revised([(each[3], each[2]) for each in spread])}


def middle(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The turns of one system as one row: medians of figures, all of the texts."""
    found: dict[str, Any] = {}
    for name in rows[0]:
        values = [each[name] for each in rows]
        numbers = all(isinstance(each, int | float) for each in values)
        found[name] = median(values) if numbers else " | ".join(dict.fromkeys(map(str, values)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--systems", default="crossline,redis,redis-inline,nothing")
    parser.add_argument("--scenarios", default=",".join(SCENARIOS), help="scenarios to run, separated by commas")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--warm-s", type=float, default=15)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="one round of 10 s after a warm-up of 3 s")
    options = parser.parse_args()
    seconds, warm_s, rounds = (10.0, 3.0, 1) if options.quick else (options.seconds, options.warm_s, options.rounds)
    systems, names = options.systems.split(","), options.scenarios.split(",")
    for given, known in ((systems, SYSTEMS), (names, SCENARIOS)):
        unknown = [each for each in given if each not in known]
        if unknown:
            parser.error(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
    report = Report("decisions", f"decisions over HTTP, open loop, R5 and a policy, {seconds:g} s after {warm_s:g}")
    if "crossline" in systems and not can_serve():
        systems.remove("crossline")
        report.notes.append("crossline itself was not measured: `crossline run` has no --serve here")
    turns: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(rounds):
        for name in names:
            for system in systems:
                if system in SCENARIOS[name].asked_of:
                    turns.setdefault((name, system), []).append(measure(system, SCENARIOS[name], seconds, warm_s))
    for rows in turns.values():
        shown = middle([{name: value for name, value in each.items() if not isinstance(value, dict)} for each in rows])
        report.add(**shown)
    report.details["turns"] = [each for rows in turns.values() for each in rows]
    report.notes.append("server_us, load_us: processor time a request, of all processes that answer and of the load")
    report.notes.append("load_apart: the load came before those whom it asks (SCHED_RR), as on a machine of its own")
    report.notes.append("bursts: the answers of one, as a whole, beside exact windows; in whatever order they came")
    report.finish()


if __name__ == "__main__":
    main()
