"""Waits for the end of processes, without a delay where the parent of orphans takes seconds to reap them."""

from __future__ import annotations

import os
import select
from collections.abc import Iterable
from contextlib import suppress

import psutil


def has_ended(process: psutil.Process) -> bool:
    """Whether it has ended; its process id may exist until its parent reaps it."""
    try:
        return bool(process.status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; empty once it has ended."""
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def still_running(processes: Iterable[psutil.Process], within_s: float) -> list[psutil.Process]:
    """Those that have not ended after ``within_s`` each. They may be anybody's children."""
    return [each for each in processes if not _ends(each, within_s)]


def _ends(process: psutil.Process, within_s: float) -> bool:
    with suppress(ProcessLookupError):
        descriptor = os.pidfd_open(process.pid)
        try:
            # The start time shows whether the process id belongs to another process by now.
            return not process.is_running() or bool(select.select([descriptor], [], [], within_s)[0])
        finally:
            os.close(descriptor)
    return True
