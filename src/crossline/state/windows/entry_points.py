"""The doors into compiled code: what is compiled, kept on disk (see ``sources``) and loaded as one function.

There are two. What judges in the order of clocks is as much code again, and the answers are the same without: no first
batch waits for it.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from crossline.basics.kernels.kernel import Kernel
from crossline.state.memory.source_digest import digest
from crossline.state.records.hash_tables import rebuild_ids, rebuild_keys
from crossline.state.records.incremental_rehash import put_in, run_end, take_out
from crossline.state.windows.compaction import count_dead, rebuild_values, relink, throw_out
from crossline.state.windows.dropping import drop_records
from crossline.state.windows.kernel import judge_rows, load_rows
from crossline.state.windows.key_order import compare_rows, figure_rows, take_rows
from crossline.state.windows.verdicts.formula_hits import emit_rows

JUDGE, LOAD, COUNT_DEAD, THROW_OUT, REBUILD_IDS, REBUILD_KEYS, REBUILD_VALUES, RELINK, RUN_END, TAKE_OUT, PUT_IN = (
    range(11)
)
DROP = 15
EMIT, TAKE, FIGURES, COMPARE = range(11, 15)
IN_ORDER = (TAKE, FIGURES, COMPARE)


def _made() -> Kernel:
    def run(h: int, task: int, argument: int, more: int) -> int:
        done = 0
        if task == JUDGE:
            done = judge_rows(h, argument)
        elif task == LOAD:
            load_rows(h)
        elif task == COUNT_DEAD:
            done = count_dead(h, argument)
        elif task == THROW_OUT:
            throw_out(h, argument)
        elif task == DROP:
            done = drop_records(h, argument, more)
        elif task == REBUILD_IDS:
            rebuild_ids(h)
        elif task == REBUILD_KEYS:
            rebuild_keys(h)
        elif task == REBUILD_VALUES:
            rebuild_values(h)
        elif task == RELINK:
            relink(h)
        elif task == RUN_END:
            done = run_end(h, argument, more)
        elif task == TAKE_OUT:
            take_out(h, argument, more)
        elif task == PUT_IN:
            put_in(h, argument)
        elif task == EMIT:
            done = emit_rows(h, argument)
        return done

    return Kernel(run, digest)


def _made_in_order() -> Kernel:
    def run_in_order(h: int, task: int, argument: int, more: int) -> int:  # noqa: ARG001 - as of `run`
        done = 0
        if task == TAKE:
            take_rows(h, argument)
        elif task == FIGURES:
            figure_rows(h, argument)
        elif task == COMPARE:
            done = compare_rows(h, argument)
        return done

    return Kernel(run_in_order, digest)


@cache
def compiled() -> Any:
    """The function (address of the words, task, its two arguments) -> result.

    Compiles, or loads what an earlier process compiled.
    """
    return _made().of(*["int64"] * 4)


@cache
def compiled_in_order() -> Any:
    """As ``compiled``, of the tasks IN_ORDER."""
    return _made_in_order().of(*["int64"] * 4)


def doing(task: int) -> Any:
    """The one of the two that does ``task``."""
    return compiled_in_order() if task in IN_ORDER else compiled()
