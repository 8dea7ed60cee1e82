"""Processes that have ended: at once, also where whoever adopts orphans takes seconds to reap them."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress

import psutil


def has_ended(process: psutil.Process) -> bool:
    """Whether it runs no more; its number may be there until somebody reaps it."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def still_running(processes: Iterable[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that have not ended after ``within_s`` each. They may be anybody's children."""
    return [each for each in processes if not _ends(each, within_s)]


def _ends(process: psutil.Process, within_s: float) -> bool:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            # A number that is another's by now is told by the instant at which that one began.
            return not process.is_running() or bool(select.select([descriptor], [], [], within_s)[0])
        finally:
            os.close(descriptor)
    return True
