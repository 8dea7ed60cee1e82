"""How long a thread keeps the interpreter while others wait for it."""

from __future__ import annotations

import sys

TURN_S = 0.001


def take_short_turns() -> None:
    """Let threads of this process take turns of a millisecond instead of Python's five.

    A sink that waits for its server needs the interpreter for some microseconds between two waits, some ten times a
    batch. Beside a sink that computes, each of them took it five milliseconds to get.
    """
    sys.setswitchinterval(TURN_S)
