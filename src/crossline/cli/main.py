"""Entry point of ``crossline``: a process that runs one command line. ``app`` has the commands.

This module loads next to nothing: what judges a backtest begins to load beside, before the command line is read.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence


def main() -> None:
    """Run the command line; exit 0 done, 1 the answer is no or work failed, 2 wrong use, 128 + a signal's number."""
    # Before and after a command nothing catches what Ctrl-C raises, and Python would print where it was.
    _on_interrupt(signal.SIG_DFL)
    from crossline.runtime.machine.dataclass_code import keep_dataclass_code

    keep_dataclass_code()
    from crossline.cli.launch.engine import begin_engine
    from crossline.cli.launch.process import (
        be_alone,
        do_with_one_blas_thread,
        do_without_pydantic_plugins,
        leave,
        open_standard_streams,
    )
    from crossline.cli.logs import configure
    from crossline.runtime.machine.garbage import OBJECTS_AT_START, collect_seldom

    collect_seldom(OBJECTS_AT_START)
    be_alone()
    do_without_pydantic_plugins()
    do_with_one_blas_thread()
    open_standard_streams()
    configure()
    begin_engine(sys.argv[1:])
    code = run_command(sys.argv[1:], lambda: _on_interrupt(signal.default_int_handler))
    _on_interrupt(signal.SIG_DFL)
    leave(code)


def run_command(arguments: Sequence[str], begun: Callable[[], None] = lambda: None) -> int:
    """Run one command line; return its exit code. Errors are printed on the standard error.

    ``begun``: called once an exception becomes an exit code.
    """
    from crossline.cli.exit_status import check_arguments, outcome

    def run() -> object:
        begun()
        check_arguments(arguments)
        from crossline.cli.launch.process import close_to_others

        close_to_others(arguments)
        from crossline.cli.app import app

        return app(list(arguments), prog_name="crossline", standalone_mode=False)

    return outcome(run)


def _on_interrupt(handler: Callable[..., object] | signal.Handlers) -> None:
    """What Ctrl-C does; nothing where who started us has it ignored, as shells do behind an ``&``."""
    if signal.getsignal(signal.SIGINT) in {signal.default_int_handler, signal.SIG_DFL}:
        signal.signal(signal.SIGINT, handler)


if __name__ == "__main__":
    main()
