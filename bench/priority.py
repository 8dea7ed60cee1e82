"""A load that stands for other machines."""

from __future__ import annotations

import os


def raise_priority() -> bool:
    """Let this process come before what is measured, as if it had a machine of its own; whether the system allows it.

    Else it waits for a processor with those whom it asks, and how late it was itself counts as theirs.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True
