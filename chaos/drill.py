"""A drill, from its start to its verdict."""

from __future__ import annotations

import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from confluent_kafka import KafkaException

from chaos.calibration import Peak, calibrated
from chaos.checks.alert_check import Expected, Sorter, compare, expected_of
from chaos.checks.api_report import RECEIPTS, Answering, answering_of
from chaos.checks.contents import all_contents, arrived
from chaos.checks.ledger import Finding
from chaos.checks.open_transactions import mended
from chaos.faults import AT_ONCE, OF_THE_REGISTRY, Fault
from chaos.lag_probe import Watching
from chaos.load.producer import Load
from chaos.parts.api import ASKS_PER_S, REVISED_S, Api, write_keys
from chaos.parts.services import Services
from chaos.parts.supervised import Start, Supervised
from chaos.pipeline import ALERTS, DEAD, DECISIONS, Settings, write_pipeline
from chaos.strikes import Striker

LOOK_S = 0.1
START_S_MAX = 900.0  # also on a machine that does much else
STARTS_MAX = 5  # until the first batch, where nothing is struck yet
CLIMBS = 2  # the first one warms: Java compiles what it runs often
RECOVER_S_MAX = 600.0
SETTLED_S = 2.0  # of records that may wait, where all is well
STILL_S = 45.0  # without a batch: a start takes less on a quiet machine
ACCOUNTS, ACCOUNTS_AT_PEAK = 300, 5_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drilled: ``minutes``: no fault begins later than that; ``warm_s``: load before the first fault.

    ``steady_s``: after that, load at the rate of the drill; how far the pipeline is behind meanwhile is printed.
    ``ends_killed``: the driver is killed at the end, with records waiting, in place of being asked to stop.
    ``of_peak``: the share of what the machine sustains that is sent, in place of ``rate_per_s``. ``asks_per_s``: of the
    API, where it is a part; ``asks_open_max``: none is about a new payment while so many have no answer, since on a
    machine that does much else an open loop and its retries can be more than is ever answered; ``receipts``: of each
    way to answer, so many are judged again.
    """

    seed: int
    rate_per_s: float
    faults: Sequence[Fault]
    minutes: float | None = None
    warm_s: float = 5.0
    ends_killed: bool = False
    settings: Settings = field(default_factory=Settings)
    of_peak: float | None = None
    asks_per_s: float = ASKS_PER_S
    asks_open_max: int = sys.maxsize
    receipts: int = RECEIPTS
    steady_s: float = 0.0


@dataclass(slots=True)
class Passed:
    """A fault that was injected: its time in seconds of the drill, what was done, the highest lag, its end."""

    fault: Fault
    began_s: float
    strikes: list[str]
    met: bool
    healed_s: float = 0.0
    over_s: float | None = None
    lag_max: int = 0


@dataclass(slots=True)
class Outcome:
    """The results of a drill."""

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
    rate_per_s: float
    peak: Peak | None
    mended: list[tuple[float, str]]
    counting_s: float
    memory_mb: dict[str, float]
    api: Answering | None = None

    @property
    def good(self) -> bool:
        """Whether nothing was lost or came twice, and the pipeline recovered from every fault."""
        over = all(each.over_s is not None for each in self.passed)
        return over and not self.faults_of_drill and all(each.good for each in self.findings)


def drill(plan: Plan, root: Path, services: Services) -> Outcome:
    """Run it; raises where it cannot be run."""
    written = write_pipeline(root, services.addresses, plan.settings)
    pipeline = Supervised(root, written, services.environment, services.stored)
    accounts = ACCOUNTS if plan.of_peak is None else ACCOUNTS_AT_PEAK
    load = Load(services.brokers, plan.rate_per_s, plan.seed, services.format, accounts)
    api = _api_of(plan, root, written, services, accounts)
    watching = Watching(services.brokers, load, pipeline.done, others=api is not None)
    striker = Striker(services, pipeline, load, random.Random(plan.seed), api)
    run = Run(plan, pipeline, load, watching, striker, api)
    memory = {"at the start": _memory_mb()}
    try:
        pipeline.start()
        load.start()
        watching.start()
        run.await_start()
        peak = run.calibrate()
        run.steady()
        passed = run.faults()
        run.end()
    finally:
        load.stop()
        pipeline.stop()
        watching.stop()
        if api is not None:
            api.kill()
    memory["at the end of the faults"] = _memory_mb()
    say("counting")
    counting_s = time.monotonic()
    run.mend()
    sorter = Sorter(load.log)
    expected = expected_of(root, sorter, arrived(services.brokers), services.format.decode)
    topic = sorter.of_the_topic()
    findings = [topic, *compare(expected, all_contents(root, services))]
    answering = _answering(plan, root, api, services, sorter)
    findings += answering.findings if answering else []
    memory["after the count"] = _memory_mb()
    return Outcome(
        plan=plan,
        passed=passed,
        starts=pipeline.starts,
        findings=findings,
        lags=watching.lags,
        latencies=watching.latencies,
        sent=len(load.log),
        counts=_counts(expected),
        seconds=run.seconds,
        faults_of_drill=run.wrong,
        rate_per_s=load.rate_per_s,
        peak=peak,
        mended=run.mended,
        counting_s=time.monotonic() - counting_s,
        memory_mb=memory,
        api=answering,
    )


def _counts(expected: Expected) -> dict[str, int]:
    return {
        "decided about": len(expected.in_time),
        "late": len(expected.late),
        "dead": len(expected.dead),
        "alerts": len(expected.alerts.ledger),
        "decisions with hits": len(expected.with_hits.ledger),
    }


def _answering(plan: Plan, root: Path, api: Api | None, services: Services, sorter: Sorter) -> Answering | None:
    if api is None:
        return None
    return answering_of(root, api, services.brokers, sorter, plan.receipts)


def _api_of(plan: Plan, root: Path, pipeline: Path, services: Services, accounts: int) -> Api | None:
    if services.addresses.api is None:
        return None
    write_keys(root)
    proxy = services.proxies["api"]
    api = Api.of(root, pipeline, (proxy.target, proxy.port), plan.seed, accounts)
    api.per_s, api.open_max = plan.asks_per_s, plan.asks_open_max
    return api


def _memory_mb() -> float:
    """What this process holds now."""
    return round(psutil.Process().memory_info().rss / 2**20)


@dataclass(slots=True)
class Run:
    """A drill under way. ``wrong``: what is wrong with it; ``mended``: when transactions were ended that hung."""

    plan: Plan
    pipeline: Supervised
    load: Load
    watching: Watching
    striker: Striker
    api: Api | None = None
    wrong: list[str] = field(default_factory=list)
    mended: list[tuple[float, str]] = field(default_factory=list)
    seconds: float = 0.0

    def await_start(self) -> None:
        """Wait until the first batch and all records that came meanwhile are committed."""
        deadline_s = time.monotonic() + START_S_MAX
        while self.pipeline.done() <= 0:
            if time.monotonic() > deadline_s or len(self.pipeline.starts) > STARTS_MAX:
                tail = (self.pipeline.root / "run.log").read_text(errors="replace")[-3000:]
                raise RuntimeError(f"no batch in {START_S_MAX:.0f} s, {len(self.pipeline.starts)} starts:\n{tail}")
            time.sleep(LOOK_S)
        if self.api is not None:
            self.api.start()
        self._settled()
        time.sleep(self.plan.warm_s)

    def calibrate(self) -> Peak | None:
        """Find the rate of the drill, if it is a share of the sustainable rate."""
        if self.plan.of_peak is None:
            return None
        say("measuring what is sustained")
        peaks = []
        for _ in range(CLIMBS):
            peaks.append(calibrated(self.load, self.watching))
            self._settled()
        peak = max(peaks, key=lambda each: each.per_s)
        self.load.rate_per_s = float(round(peak.per_s * self.plan.of_peak))
        say(f"{peak.per_s:.0f} records/s are sustained; {self.load.rate_per_s:g} are sent; steps {peak.steps}")
        self._settled()
        return peak

    def steady(self) -> None:
        """Send at the rate of the drill without faults, and say how far the pipeline was behind meanwhile."""
        if not self.plan.steady_s:
            return
        began_s, before = self.watching.now_s(), self.watching.committed
        time.sleep(self.plan.steady_s)
        seconds = self.watching.now_s() - began_s
        lags = sorted(lag for at_s, lag in self.watching.lags if at_s >= began_s)
        middle, most = lags[len(lags) // 2], lags[-1]
        per_s = (self.watching.committed - before) / seconds
        say(f"steady for {seconds:.0f} s: {per_s:.0f} records/s committed, lag {middle} (median), {most} (most)")
        if not self._settled():
            self.wrong.append(f"the pipeline did not keep up with {self.load.rate_per_s:g} records/s")

    def faults(self) -> list[Passed]:
        """Inject all of them; returns the result of each."""
        passed: list[Passed] = []
        if self.api is not None:
            self.api.ask()
        for fault in self.plan.faults:
            time.sleep(fault.pause_s)
            if self.plan.minutes is not None and self.watching.now_s() > self.plan.minutes * 60:
                break
            passed.append(self._struck(fault))
            if not fault.hurried and not self._got_over(passed):
                break
        self._got_over(passed)
        return passed

    def end(self) -> None:
        """Stop the load, and wait until all records are at all sinks."""
        self.seconds = self.watching.now_s()
        if self.api is not None:
            self.api.stop_asking()
        if self.plan.ends_killed:
            self.pipeline.stop(signal.SIGKILL)
            self.load.stop()
        else:
            self.load.stop()
            self.watching.renew()
            if not self._settled(0, self.pipeline.begun):
                waiting = self.watching.lag()
                self.wrong.append(f"{waiting} records were not judged {RECOVER_S_MAX:.0f} s after the last was sent")
            if code := self.pipeline.stop():
                self.wrong.append(f"the pipeline ended with {code} when it was asked to stop")
        self.mend()
        if code := self.pipeline.drain():
            self.wrong.append(f"`run --drain` ended with {code}")
        if self.api is not None:
            time.sleep(REVISED_S)  # it follows the last batch, too
            self.api.stop()
            self.wrong += self.api.wrong
        self.wrong += self.load.failed

    def mend(self) -> None:
        """End transactions that hang at the broker. The pipeline cannot repair that; the report lists them."""
        try:
            ended = mended(self.striker.services.brokers, (ALERTS, DEAD, DECISIONS))
        except (OSError, RuntimeError, KafkaException) as error:  # a broker that is only coming up: it is asked again
            say(f"    the broker could not be asked what hangs: {error}")
            return
        for each in ended:
            self.mended.append((round(self.watching.now_s(), 1), each))
            say(f"    mended: {each}")

    def _got_over(self, passed: Sequence[Passed]) -> bool:
        over = self._settled()
        for each in passed:
            if each.over_s is None and over:
                each.over_s = self.watching.now_s()
        _note_lags(passed, self.watching)
        if passed:
            last = passed[-1]
            after = f"{last.over_s - last.healed_s:.1f} s after" if last.over_s is not None else "NOT over"
            say(f"    {after}, lag at most {last.lag_max}")
        return over

    def _struck(self, fault: Fault) -> Passed:
        switch = self.load.format.evolve() if OF_THE_REGISTRY.intersection(fault.kinds) else None
        began_s = self.watching.now_s()
        struck = [self.striker.strike(kind, fault.seconds) for kind in fault.kinds]
        strikes = [each.what for each in struck]
        if switch is not None:
            switch()
            strikes.append("records have a new schema")
        say(f"{began_s:7.1f} s  {fault.number:3}  {'; '.join(strikes)}")
        if any(kind not in AT_ONCE for kind in fault.kinds):
            time.sleep(fault.seconds)
        for each in reversed(struck):
            each.undo()
        return Passed(fault, began_s, strikes, any(each.met for each in struck), self.watching.now_s())

    def _settled(self, lag_max: float | None = None, begun: Callable[[], int] | None = None) -> bool:
        """Whether all that was acknowledged by now is committed in time, and no more than ``lag_max`` waits.

        By default that is what comes in two seconds. Where nothing moves for long, the broker is looked at. With
        ``begun`` it is enough that a batch was begun with it: a request to stop waits for the end of that batch.
        """
        lag_max = self.load.rate_per_s * SETTLED_S if lag_max is None else lag_max
        watching, by_now = self.watching, self.watching.acknowledged()
        deadline_s, moved_s, at = time.monotonic() + RECOVER_S_MAX, time.monotonic(), watching.committed
        while (now_s := time.monotonic()) < deadline_s:
            if watching.lag() <= lag_max and watching.committed >= by_now and (self.api is None or self.api.ready()):
                return True
            if begun is not None and begun() >= by_now:
                return True
            if watching.committed != at:
                moved_s, at = now_s, watching.committed
            elif now_s - moved_s > STILL_S:
                self.mend()
                moved_s = time.monotonic()
            time.sleep(LOOK_S)
        return False


def _note_lags(passed: Sequence[Passed], watching: Watching) -> None:
    for each in passed:
        until_s = each.over_s or watching.now_s()
        each.lag_max = max((lag for at_s, lag in watching.lags if each.began_s <= at_s <= until_s), default=0)


def say(text: str) -> None:
    """A line of progress."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
