"""Injects and reverts each kind of fault."""

from __future__ import annotations

import random
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

import psutil

from chaos.faults import API_KILLS, KILLS, SERVICES
from chaos.load.producer import Load
from chaos.parts.api import Api
from chaos.parts.services import Services
from chaos.parts.supervised import Supervised, no_files

MINUTE_MS = 60_000
POISON_SHARE = 0.05
STORM_TIMES = 2.0
CLOCKS_MS = {"clock-ahead": 10 * MINUTE_MS, "clock-behind": -60 * MINUTE_MS, "clock-far": 26 * 60 * MINUTE_MS}
# Of a caller: so late that the stream decides nothing, ahead and taken, so far ahead that the record is refused.
CALLERS_MS = (-180 * MINUTE_MS, 40 * MINUTE_MS, 120 * MINUTE_MS)
OF_REPLICAS = ("follower", "fork")

Undo = Callable[[], object]


def nothing() -> None:
    """Reverts nothing: the fault ends by itself."""


@dataclass(frozen=True, slots=True)
class Struck:
    """``what``: a description of what was done; ``undo``: reverts it; ``met``: whether there was a target."""

    what: str
    undo: Undo = nothing
    met: bool = True


@dataclass(frozen=True, slots=True)
class Striker:
    """Injects faults into the parts of a drill; ``api``: if the drill has one."""

    services: Services
    pipeline: Supervised
    load: Load
    draw: random.Random
    api: Api | None = None

    def strike(self, kind: str, seconds: float) -> Struck:
        """Inject it now; a fault of records ends by itself after ``seconds``."""
        if kind in KILLS or kind in API_KILLS:
            return self._kill(kind)
        if kind in SERVICES:
            service = self.services.running[kind]
            pid = service.pid
            service.kill()
            return Struck(f"SIGKILL to {kind} ({pid}), started again after {seconds} s", service.start)
        if kind in CLOCKS_MS:
            self.load.clock(seconds, CLOCKS_MS[kind])
            return Struck(f"senders' clocks {CLOCKS_MS[kind] // MINUTE_MS:+} min for {seconds} s")
        head, _, name = kind.partition("-")
        return self._further()[head](name, seconds)

    def _further(self) -> Mapping[str, Callable[[str, float], Struck]]:
        return {
            "cut": self._cut,
            "stall": self._stall,
            "fail": self._fail,
            "freeze": self._freeze,
            "disk": self._disk,
            "poison": self._poison,
            "storm": self._storm,
            "clock": self._clock_of_the_caller,
        }

    def _processes(self, name: str) -> list[psutil.Process]:
        """Of the pipeline, all of them (``run``) or those of a kind; or of the API."""
        if name == "run":
            return self.pipeline.family()
        if name == "api" or name in OF_REPLICAS:
            return self.api.served.processes(name) if self.api is not None else []
        return self.pipeline.processes(name)

    def _kill(self, kind: str) -> Struck:
        found = self._processes(kind)
        if not found:
            return Struck(f"no {kind} runs now", met=False)
        one = self.draw.choice(found)
        with suppress(psutil.NoSuchProcess):
            one.kill()
        return Struck(f"SIGKILL to {kind} ({one.pid}), one of {len(found)}")

    def _cut(self, name: str, seconds: float) -> Struck:
        if name in OF_REPLICAS:
            return self._cut_off(seconds)
        proxy = self.services.proxies[name]
        proxy.cut()
        return Struck(f"connections to {name} cut and refused for {seconds} s", proxy.heal)

    def _stall(self, name: str, seconds: float) -> Struck:
        if name == "webhook":
            answers = self.services.receiver.answers
            answers.clear()
            return Struck(f"the webhook does not answer for {seconds} s", answers.set)
        proxy = self.services.proxies[name]
        proxy.stall()
        return Struck(f"bytes to and from {name} held for {seconds} s", proxy.heal)

    def _fail(self, _: str, seconds: float) -> Struck:
        receiver = self.services.receiver
        receiver.busy = True
        return Struck(f"the webhook answers 503 for {seconds} s", partial(setattr, receiver, "busy", False))

    def _freeze(self, name: str, seconds: float) -> Struck:
        if name in self.services.running:
            self.services.freeze(name)
            return Struck(f"SIGSTOP to {name}, thawed after {seconds} s", partial(self.services.thaw, name))
        found = self._processes(name)
        if not found:
            return Struck(f"no {name} runs now", met=False)
        struck = found if name == "run" else [self.draw.choice(found)]
        for each in struck:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        which = f"all {len(found)} processes of the run" if name == "run" else f"{name} ({struck[0].pid})"
        return Struck(f"SIGSTOP to {which}, thawed after {seconds} s", partial(_thaw, struck))

    def _cut_off(self, seconds: float) -> Struck:
        """The replica can read nothing any more, and no fork of it can connect."""

        def limit(*, limited: bool) -> int:
            return no_files([each for name in OF_REPLICAS for each in self._processes(name)], limited=limited)

        count, undo = limit(limited=True), partial(limit, limited=False)
        done = f"follower and forks ({count}) open no file of the checkpoint and no socket for {seconds} s"
        return Struck(done, undo, count > 0)

    def _clock_of_the_caller(self, _: str, seconds: float) -> Struck:
        if self.api is None:
            return Struck("no client of the API", met=False)
        by_ms = self.draw.choice(CALLERS_MS)
        self.api.clock(seconds, by_ms)
        return Struck(f"event times of who asks {by_ms // MINUTE_MS:+} min for {seconds} s")

    def _disk(self, name: str, seconds: float) -> Struck:
        if name == "api":
            served = self.api.served if self.api is not None else None
            count = served.fill_disk(full=True) if served is not None else 0
            undo = partial(served.fill_disk, full=False) if served is not None else nothing
            return Struck(f"no file takes a byte of the {count} processes of the API for {seconds} s", undo, count > 0)
        count = self.pipeline.fill_disk(full=True)
        undo = partial(self.pipeline.fill_disk, full=False)
        return Struck(f"no file takes a byte of the {count} processes of the run for {seconds} s", undo, count > 0)

    def _poison(self, _: str, seconds: float) -> Struck:
        self.load.poison(seconds, POISON_SHARE)
        return Struck(f"{POISON_SHARE:.0%} of records cannot be read for {seconds} s")

    def _storm(self, _: str, seconds: float) -> Struck:
        self.load.storm(seconds, STORM_TIMES)
        return Struck(f"one account sends {STORM_TIMES:g} times the whole rate for {seconds} s")


def _thaw(processes: Sequence[psutil.Process]) -> None:
    for each in processes:
        with suppress(psutil.NoSuchProcess):
            each.send_signal(signal.SIGCONT)
