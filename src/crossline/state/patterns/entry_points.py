"""The one door into compiled code, as ``windows/entry_points`` is for windows."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit, types

from crossline.basics.compiling import compiled_for
from crossline.basics.parts import DOOR
from crossline.state.memory.source_digest import digest
from crossline.state.patterns.absence_kernel import meet_all, meet_rows
from crossline.state.patterns.kernel import judge_rows, offer_all
from crossline.state.patterns.renumbering import renumber_match_steps

JUDGE, CLOSE, OFFER, MEET, MEET_ALL = range(5)


def _made(sources: int) -> Any:
    def run(h: int, task: int, argument: int) -> int:
        done = sources * 0
        if task == JUDGE:
            done = judge_rows(h, argument)
        elif task == CLOSE:
            renumber_match_steps(h)
        elif task == OFFER:
            done = offer_all(h, argument)
        elif task == MEET:
            meet_rows(h)
        elif task == MEET_ALL:
            meet_all(h)
        return done

    return compiled_for(njit(cache=True, **DOOR)(run), types.int64(types.int64, types.int64, types.int64))


@cache
def compiled() -> Any:
    """The function (address of the words, task, its argument) -> result.

    Compiles, or loads what an earlier process compiled.
    """
    return _made(digest("crossline.state.patterns"))
