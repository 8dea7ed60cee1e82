"""The scheduling priority of a load that represents other machines."""

from __future__ import annotations

import os


def raise_priority() -> bool:
    """Schedule this process before the measured ones, as if it had its own machine; whether the system allows it.

    Otherwise the load competes for processors with the measured system, and its own delays count as latency.
    """
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except PermissionError:
        return False
    return True
