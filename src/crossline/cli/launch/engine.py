"""The process that judges for ``crossline backtest``: it begins to load before the command line is read."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from crossline.backtest.engine_process import EngineProcess
from crossline.cli.launch.process import do_without_pandas
from crossline.cli.launch.startup import tell_compiling
from crossline.runtime.machine.processors import processors

if TYPE_CHECKING:
    from crossline.backtest.backtest import BacktestResult

_begun: list[EngineProcess] = []
_ELSEWHERE = {"--help", "spark", "--on=spark"}  # words of command lines that judge nothing here


def begin_engine(arguments: Sequence[str]) -> None:
    """Begin it, where there is a processor for it and ``arguments`` ask for a backtest; it ends with this process.

    Only in a process that runs one command: what another process has loaded and opened is not for a fork of it.
    """
    if arguments[:1] == ["backtest"] and _ELSEWHERE.isdisjoint(arguments) and processors() > 1:
        engine = EngineProcess.begin((do_without_pandas, tell_compiling))
        atexit.register(engine.end)
        _begun.append(engine)


def local_backtest() -> Callable[..., BacktestResult]:
    """What runs a backtest on this machine: the process that was begun, or else this one."""
    if _begun:
        return _begun[0].backtest
    do_without_pandas()
    tell_compiling()
    from crossline.backtest import in_process

    return in_process.backtest
