"""The process that judges for ``crossline backtest``: it begins to load before the command line is read."""

from __future__ import annotations

import atexit
from collections.abc import Sequence

from crossline.backtest.engine_process import EngineProcess
from crossline.cli.process import do_without_pandas
from crossline.cli.startup import tell_compiling
from crossline.runtime.machine.processors import processors

_begun: list[EngineProcess] = []
_ELSEWHERE = ("--help", "spark")  # words of command lines that judge nothing here


def begin_engine(arguments: Sequence[str]) -> None:
    """Begin it, where there is a processor for it and ``arguments`` ask for a backtest; it ends with this process.

    Only in a process that runs one command: what another process has loaded and opened is not for a fork of it.
    """
    named = any(word in text for word in _ELSEWHERE for text in arguments)
    if arguments[:1] == ["backtest"] and not named and processors() > 1:
        engine = EngineProcess.begin((do_without_pandas, tell_compiling))
        atexit.register(engine.end)
        _begun.append(engine)


def begun_engine() -> EngineProcess | None:
    """The one that was begun."""
    return _begun[0] if _begun else None
