"""The lease of a checkpoint on a store: one driver holds it at a time, without locks and without comparing clocks.

A driver writes a claim. Its name has a number above all earlier ones. Then the driver lists the claims. If another
claim may be of a live driver, it removes its own and does not start. Two drivers that start at once see each other,
since each writes before it lists. A driver renews its claim every few seconds. A claim without a renewal for
``LEASE_S``, by the clock of the waiting process, belongs to a dead driver and is removed. On the same machine a dead
driver is seen at once. A driver that releases its lease leaves a mark with its number, so no later driver uses this
number. A driver with a lower number that wakes up later sees that it lost the lease, even if its last claim reaches the
store late.

A live driver that was presumed dead finds out. Before it judges and before it delivers, it checks that its claim still
exists and is the highest (``still_held``). Its number is part of the names of its files, so no other driver reads a
file that it still writes (see ``checkpoint_mirror.py``).
"""

from __future__ import annotations

import os
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from crossline.basics.errors import StateError
from crossline.io.objects.file_stores import FileStore, StoreUnavailableError, retry_until_available
from crossline.logs import get_logger

CLAIMS = "claims"
MARK = "released"
RENEW_S = 5.0
LEASE_S = 30.0
_POLL_S = 0.5
_END_S = 10.0

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim, parsed from its name: ``epoch``, ``who`` made it, and how often it was renewed."""

    epoch: int
    who: str
    count: int

    @property
    def name(self) -> str:
        """Of its file."""
        return f"{self.epoch:012d}-{self.who}-{self.count:012d}.json"


_NAME = re.compile(r"(\d+)-([0-9a-f]+)-(\d+)\.json")


_MARKED = re.compile(rf"(\d+)-{MARK}\.json")


def _marks(names: Iterable[str]) -> list[int]:
    """The numbers of those that let go."""
    return [int(match[1]) for match in map(_MARKED.fullmatch, names) if match]


def _marked(epoch: int) -> str:
    return f"{CLAIMS}/{epoch:012d}-{MARK}.json"


def _read(names: Iterable[str]) -> list[Claim]:
    """The claims of these names, the newest last; other files are none of ours."""
    found = [match for match in map(_NAME.fullmatch, names) if match]
    return sorted((Claim(int(m[1]), m[2], int(m[3])) for m in found), key=lambda each: (each.epoch, each.count))


class Lease:
    """The hold on the checkpoint in ``store``, which messages call ``shown``. ``tidy`` is called with each renewal.

    ``on_lost`` is called, in a thread of its own, once it is seen that another driver has taken over.
    """

    def __init__(
        self, store: FileStore, shown: str, tidy: Callable[[], None], on_lost: Callable[[StateError], None]
    ) -> None:
        self._store = store
        self._shown = shown
        self._tidy = tidy
        self._on_lost = on_lost
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self._claim = Claim(0, secrets.token_hex(8), 0)

    @property
    def epoch(self) -> int:
        """The number that is this driver's alone."""
        return self._claim.epoch

    def take(self, epochs: list[int]) -> None:
        """Become the holder; ``epochs`` are numbers that were used besides those of claims.

        Waits up to ``LEASE_S`` where a holder may be dead. Raises StateError where another one lives,
        StoreUnavailableError where the store cannot be reached.
        """
        while not self._claimed(epochs):
            pass
        self._thread = threading.Thread(target=self._renew, name="lease", daemon=True)
        self._thread.start()

    def _claimed(self, epochs: list[int]) -> bool:
        """Whether it got a number; not where another driver got and released it between two looks."""
        dead = self._others_gone()
        epoch = 1 + max([0, *epochs, *_marks(self._names()), *(each.epoch for each in dead)])
        self._claim = Claim(epoch, self._claim.who, 0)
        self._put()
        known = {each.who for each in dead} | {self._claim.who}
        names = self._names()
        others = [each for each in _read(names) if each.who not in known]
        passed = max([0, *_marks(names)]) >= epoch
        if others or passed:
            self._drop([each for each in _read(names) if each.who == self._claim.who])
        if others:
            raise self._refused(self._about(others[-1]))
        if passed:
            return False
        # Those of the dead, or one of this driver whose putting seemed to fail.
        self._drop([each for each in self._claims() if each != self._claim])
        for mark in _marks(names):
            self._store.delete(_marked(mark))
        return True

    def still_held(self) -> None:
        """Look. Raises StateError where another process has taken over, StoreUnavailableError where that is unknown."""
        if not self._mine():
            raise self._lost_error()

    def _mine(self) -> list[Claim]:
        """The claims of this driver; none where it holds nothing any more."""
        names = self._names()
        claims = _read(names)
        if max([0, *(each.epoch for each in claims), *_marks(names)]) > self.epoch:
            return []
        return [each for each in claims if each.who == self._claim.who]

    def _lost_error(self) -> StateError:
        return StateError(
            f"the checkpoint {self._shown} was taken over by another run, since this one did not renew its hold "
            f"on it for {LEASE_S:.0f} s (it stood still, or the store was out of its reach): this run ends; what "
            "it had not noted the other one does"
        )

    def release(self) -> None:
        """Let others have it."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()
            self._store.put(_marked(self.epoch), b"{}")
            self._drop([each for each in self._claims() if each.who == self._claim.who])
            self._thread = None

    def _names(self) -> list[str]:
        return self._store.names(CLAIMS)

    def _claims(self) -> list[Claim]:
        return _read(self._names())

    def _drop(self, claims: Iterable[Claim]) -> None:
        for each in claims:
            self._store.delete(f"{CLAIMS}/{each.name}")

    def _put(self) -> None:
        about = {"process": os.getpid(), "host": socket.gethostname(), **_life(os.getpid())}
        self._store.put(f"{CLAIMS}/{self._claim.name}", orjson.dumps(about))

    def _renew(self) -> None:
        """Under a new name each time: a claim that is replaced might for a moment not be there."""
        while not self._ended.wait(RENEW_S):
            before = self._claim
            try:
                mine = self._mine()
                if not mine:  # another has taken over: a run without records to judge would not look
                    self._on_lost(self._lost_error())
                    return
                self._claim = Claim(before.epoch, before.who, before.count + 1)
                self._put()
                self._drop(mine)
                self._tidy()
            except Exception as error:  # noqa: BLE001 - whatever it was, the next renewal may go well
                log.warning("the hold on the checkpoint could not be renewed; trying again", error=str(error))

    def _others_gone(self) -> list[Claim]:
        """The claims there are, once it is known that whichever process made them is dead."""
        seen: dict[str, tuple[int, float]] = {}
        while True:
            now_s = time.monotonic()
            claims = {each.who: each for each in self._claims() if each.who != self._claim.who}
            living = []
            for who, claim in claims.items():
                count, since_s = seen.setdefault(who, (claim.count, now_s))
                about = self._about(claim)
                lives = _lives(about)
                if lives or claim.count != count:
                    raise self._refused(about)
                if lives is None and now_s - since_s < LEASE_S:
                    living.append(about)
            if not living:
                return list(claims.values())
            if now_s - min(since_s for _, since_s in seen.values()) < _POLL_S:
                log.info("waiting for a run that does not renew its hold", checkpoint=self._shown, **living[0])
            time.sleep(_POLL_S)

    def _about(self, claim: Claim) -> dict[str, Any]:
        try:
            return dict(orjson.loads(self._store.get(f"{CLAIMS}/{claim.name}")))
        except (FileNotFoundError, ValueError):
            return {}  # renewed meanwhile, which shows at the next look

    def _refused(self, about: Mapping[str, Any]) -> StateError:
        who = f" (process {about['process']} on {about['host']})" if about else ""
        return StateError(
            f"the checkpoint {self._shown} is held by another run of this pipeline{who}: stop that one first, or give "
            "this one a name and an engine.checkpoint of its own"
        )


def _life(process: int) -> dict[str, Any]:
    """An id of a process of this machine that no other process ever has; empty where the system gives none."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        began = Path(f"/proc/{process}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return {"machine": f"{boot}/{Path('/proc/self/ns/pid').stat().st_ino}", "began": int(began[19])}
    except (OSError, IndexError, ValueError):
        return {}


def _lives(about: Mapping[str, Any]) -> bool | None:
    """Whether the process that made a claim lives; None where that cannot be seen from here."""
    mine = _life(os.getpid())
    if not mine or about.get("machine") != mine["machine"]:
        return None
    if about["process"] == os.getpid():
        return True
    return _life(int(about["process"])).get("began") == about.get("began")


def release_lease(lease: Lease) -> None:
    """Release, for no longer than some seconds where the store is away: the next run then waits for the lease."""
    try:
        retry_until_available(lease.release, within_s=_END_S)
    except (StoreUnavailableError, StateError) as error:
        log.warning("the hold on the checkpoint stays until it runs out", error=str(error))
