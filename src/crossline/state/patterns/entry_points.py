"""The one door into compiled code, as ``windows/entry_points`` is for windows."""

from __future__ import annotations

from functools import cache
from typing import Any

from crossline.basics.kernels.kernel import Kernel
from crossline.state.memory.source_digest import digest
from crossline.state.patterns.absence_kernel import meet_all, meet_rows
from crossline.state.patterns.kernel import judge_rows, offer_all
from crossline.state.patterns.renumbering import renumber_match_steps

JUDGE, CLOSE, OFFER, MEET, MEET_ALL = range(5)


def _made() -> Kernel:
    def run(h: int, task: int, argument: int) -> int:
        done = 0
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

    return Kernel(run, lambda: digest("crossline.state.patterns"))


@cache
def compiled() -> Any:
    """The function (address of the words, task, its argument) -> result.

    Compiles, or loads what an earlier process compiled.
    """
    return _made().of(*["int64"] * 3)
