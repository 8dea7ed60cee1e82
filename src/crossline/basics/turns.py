"""What keeps other processes waiting while this one compiles: handed in once, and asked for by ``compiling``.

It stands apart from that, which loads numba: most commands compile nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

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
