"""A drill from its start to its verdict."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from chaos.contents import all_contents, arrived
from chaos.faults import AT_ONCE, Fault
from chaos.judging import Finding, compare, expected_of, of_the_topic
from chaos.pipeline import Settings, write_pipeline
from chaos.producer import Load
from chaos.services import Services
from chaos.strikes import Striker
from chaos.supervised import Start, Supervised
from chaos.watching import Watching

LOOK_S = 0.1
START_S_MAX = 900.0  # also on a machine that does much else
STARTS_MAX = 5  # until the first batch, where nothing is struck yet
RECOVER_S_MAX = 600.0
SETTLED_S = 2.0  # of records that may wait, where all is well


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drilled: ``minutes``: no fault begins later than that; ``warm_s``: load before the first fault.

    ``ends_killed``: the driver is killed at the end, with records waiting, in place of being asked to stop.
    """

    seed: int
    rate_per_s: float
    faults: Sequence[Fault]
    minutes: float | None = None
    warm_s: float = 5.0
    ends_killed: bool = False
    settings: Settings = field(default_factory=Settings)


@dataclass(slots=True)
class Passed:
    """A fault that was struck: when, in seconds of the drill, what was done, the lag at most, until when it lasted."""

    fault: Fault
    began_s: float
    said: list[str]
    met: bool
    healed_s: float = 0.0
    over_s: float | None = None
    lag_max: int = 0


@dataclass(slots=True)
class Outcome:
    """All that a drill found."""

    plan: Plan
    passed: list[Passed]
    starts: list[Start]
    findings: list[Finding]
    lags: list[tuple[float, int]]
    latencies: list[tuple[float, float]]
    sent: int
    counts: dict[str, int]
    seconds: float
    faults_of_drill: list[str]

    @property
    def good(self) -> bool:
        """Nothing lost, nothing twice, and every fault got over."""
        over = all(each.over_s is not None for each in self.passed)
        return over and not self.faults_of_drill and all(each.good for each in self.findings)


def drill(plan: Plan, root: Path, services: Services) -> Outcome:
    """Run it; raises where it cannot be run."""
    pipeline = Supervised(root, write_pipeline(root, services.addresses, plan.settings))
    load = Load(services.brokers, plan.rate_per_s, plan.seed)
    watching = Watching(services.brokers, load, pipeline.done)
    striker = Striker(services, pipeline, load, random.Random(plan.seed))
    wrong: list[str] = []
    try:
        pipeline.start()
        load.start()
        watching.start()
        _await_start(pipeline, watching, plan)
        passed = _faults(plan, striker, watching)
        wrong += _ended(plan, pipeline, load, watching)
    finally:
        load.stop()
        pipeline.stop()
        watching.stop()
    say("counting")
    records = arrived(services.brokers)
    topic = of_the_topic(load.log, records)
    expected = expected_of(root, load.log, records)
    findings = [topic, *compare(expected, all_contents(root, services))]
    counts = {
        "decided about": len(expected.in_time),
        "late": len(expected.late),
        "dead": len(expected.dead),
        "alerts": len(expected.alerts.digests),
        "decisions with hits": len(expected.with_hits.digests),
    }
    seconds = watching.now_s()
    return Outcome(
        *(plan, passed, pipeline.starts, findings, watching.lags, watching.latencies),
        *(len(load.log), counts, seconds, wrong),
    )


def _ended(plan: Plan, pipeline: Supervised, load: Load, watching: Watching) -> list[str]:
    """No more records, and all of them at all sinks; what was wrong with that."""
    wrong = []
    if plan.ends_killed:
        pipeline.stop(signal.SIGKILL)
        load.stop()
    else:
        load.stop()
        if not _settled(watching, 0, RECOVER_S_MAX):
            wrong.append(f"{watching.lag()} records were not judged {RECOVER_S_MAX:.0f} s after the last was sent")
        if code := pipeline.stop():
            wrong.append(f"the pipeline ended with {code} when it was asked to stop")
    if code := pipeline.drain():
        wrong.append(f"`run --drain` ended with {code}")
    return [*wrong, *load.failed]


def _await_start(pipeline: Supervised, watching: Watching, plan: Plan) -> None:
    deadline_s = time.monotonic() + START_S_MAX
    while pipeline.done() <= 0:
        if time.monotonic() > deadline_s or len(pipeline.starts) > STARTS_MAX:
            tail = (pipeline.root / "run.log").read_text(errors="replace")[-3000:]
            raise RuntimeError(f"no batch in {START_S_MAX:.0f} s, {len(pipeline.starts)} starts:\n{tail}")
        time.sleep(LOOK_S)
    _settled(watching, plan.rate_per_s * SETTLED_S, RECOVER_S_MAX)
    time.sleep(plan.warm_s)


def _faults(plan: Plan, striker: Striker, watching: Watching) -> list[Passed]:
    passed: list[Passed] = []
    for fault in plan.faults:
        time.sleep(fault.pause_s)
        if plan.minutes is not None and watching.now_s() > plan.minutes * 60:
            break
        passed.append(_struck(fault, striker, watching))
        if fault.hurried:
            continue
        over = _settled(watching, plan.rate_per_s * SETTLED_S, RECOVER_S_MAX)
        for each in passed:
            if each.over_s is None and over:
                each.over_s = watching.now_s()
        _note_lags(passed, watching)
        last = passed[-1]
        after = f"{last.over_s - last.healed_s:.1f} s after" if last.over_s is not None else "NOT over"
        say(f"    {after}, lag at most {last.lag_max}")
        if not over:
            break
    if _settled(watching, plan.rate_per_s * SETTLED_S, RECOVER_S_MAX):
        for each in passed:
            each.over_s = each.over_s or watching.now_s()
    _note_lags(passed, watching)
    return passed


def _struck(fault: Fault, striker: Striker, watching: Watching) -> Passed:
    began_s = watching.now_s()
    struck = [striker.strike(kind, fault.seconds) for kind in fault.kinds]
    said = [each.what for each in struck]
    say(f"{began_s:7.1f} s  {fault.number:3}  {'; '.join(said)}")
    if any(kind not in AT_ONCE for kind in fault.kinds):
        time.sleep(fault.seconds)
    for each in reversed(struck):
        each.undo()
    return Passed(fault, began_s, said, any(each.met for each in struck), watching.now_s())


def _note_lags(passed: Sequence[Passed], watching: Watching) -> None:
    for each in passed:
        until_s = each.over_s or watching.now_s()
        each.lag_max = max((lag for at_s, lag in watching.lags if each.began_s <= at_s <= until_s), default=0)


def _settled(watching: Watching, lag_max: float, seconds: float) -> bool:
    """Whether all that was acknowledged by now is committed within so many seconds, and no more than that waits."""
    deadline_s, by_now = time.monotonic() + seconds, watching.load.acknowledged
    while time.monotonic() < deadline_s:
        if watching.lag() <= lag_max and watching.committed >= by_now:
            return True
        time.sleep(LOOK_S)
    return False


def say(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
