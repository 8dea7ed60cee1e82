"""What keeps other processes waiting while this one compiles: handed in once, and asked for by ``compiling``.

It stands apart from that, which loads numba: most commands compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

# By a kernel's name and the folder in which it is kept: what is entered before it is compiled, and left once it is
# there. It gives what to call when compiling begins: a kernel that came from elsewhere while it was entered is not
# compiled. It is entered again within itself where one kernel calls another.
Turn = Callable[[str, str], AbstractContextManager[Callable[[], None]]]

_turn: list[Turn] = []


def compile_in(turn: Turn) -> None:
    """From now on this process and its forks compile in such turns."""
    _turn[:] = [turn]


def turn_of() -> Turn | None:
    """The turn to compile in; None: none was set."""
    return _turn[0] if _turn else None


_when_loaded: list[Callable[[Any], None]] = []
_events: list[Any] = []


def when_numba_is_loaded(call: Callable[[Any], None]) -> None:
    """Call it with numba's module of events: now, or once this process loads numba to compile."""
    if _events:
        call(_events[0])
    else:
        _when_loaded.append(call)


def numba_is_loaded(events: Any) -> None:
    """This process compiles from now on."""
    _events[:] = [events]
    while _when_loaded:
        _when_loaded.pop(0)(events)
