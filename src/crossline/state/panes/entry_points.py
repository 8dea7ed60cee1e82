"""The one door into compiled code: one function to compile, to keep on disk and to load."""

from __future__ import annotations

from functools import cache
from typing import Any

from crossline.basics.kernels.kernel import Kernel
from crossline.state.memory.source_digest import digest
from crossline.state.panes.comparison import emit_rows
from crossline.state.panes.kernel import judge_rows, load_rows, sweep
from crossline.state.panes.key_table import key_run, put_key, put_keys, take_keys
from crossline.state.panes.recent_ids import put_ids

JUDGE, EMIT, LOAD, SWEEP, PUT_KEY, KEY_RUN, TAKE_KEYS, PUT_KEYS, PUT_IDS = range(9)
PACKAGE = "crossline.state.panes"


def _made() -> Kernel:
    def run(h: int, task: int, argument: int, more: int) -> int:
        done = 0
        if task == JUDGE:
            done = judge_rows(h, argument)
        elif task == EMIT:
            done = emit_rows(h, argument)
        elif task == LOAD:
            done = load_rows(h, argument)
        elif task == SWEEP:
            done = sweep(h, argument)
        elif task == PUT_KEY:
            put_key(h, argument)
        elif task == KEY_RUN:
            done = key_run(h, argument)
        elif task == TAKE_KEYS:
            done = take_keys(h, argument, more)
        elif task == PUT_KEYS:
            put_keys(h, argument)
        elif task == PUT_IDS:
            put_ids(h, argument)
        return done

    return Kernel(run, lambda: digest(PACKAGE))


@cache
def compiled() -> Any:
    """The function (address of the words, task, its two arguments) -> result.

    Compiles, or loads what an earlier process compiled.
    """
    return _made().of(*["int64"] * 4)
