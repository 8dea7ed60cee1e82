"""Slots of the processes that share a ledger: each holds one while it lives, and goes on with the slot's chain.

A slot is a file that is locked (``flock``): the kernel gives the lock back when its process ends, however it ends, and
no number of a process that was used again can be mistaken for it. A child that is forked while the lock is held would
hold it too: who holds one starts others with ``subprocess``, which closes files.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from pathlib import Path

from crossline.basics.errors import RetryableError

SLOTS_MAX = 64


class LedgerSlots:
    """The slots beside the ledger at ``ledger``."""

    def __init__(self, ledger: Path) -> None:
        self._folder = ledger.with_name(f"{ledger.name}.slots")

    def take(self) -> Slot:
        """The lowest free slot. Raises RetryableError if all are held."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for number in range(SLOTS_MAX):
            descriptor = self._locked(number, fcntl.LOCK_EX)
            if descriptor is not None:
                return Slot(number, descriptor)
        raise RetryableError(
            f"{self._folder}: found all {SLOTS_MAX} slots held; expected fewer processes at one ledger: end some, or "
            "give them a ledger of another stream"
        )

    def held(self, number: int) -> bool:
        """Whether a process that lives holds slot ``number``."""
        descriptor = self._locked(number, fcntl.LOCK_SH)
        if descriptor is None:
            return True
        os.close(descriptor)
        return False

    def _locked(self, number: int, how: int) -> int | None:
        """A descriptor that has the lock; None if another has it."""
        descriptor = os.open(self._folder / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


class Slot:
    """A slot that this process holds."""

    def __init__(self, number: int, descriptor: int) -> None:
        self.number = number
        self._descriptor: int | None = descriptor

    def release(self) -> None:
        """Let go of it; safe to call twice."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            with suppress(OSError):
                os.close(descriptor)


def process_text() -> str:
    """This process and the start of its machine, for people who look into a ledger."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = "unknown"
    return f"pid {os.getpid()}, boot {boot}"
