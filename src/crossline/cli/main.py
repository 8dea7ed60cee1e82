"""Entry point of ``crossline``: a process that runs one command line. ``app`` has the commands.

This module loads next to nothing: what judges a backtest begins to load beside, before the command line is read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from crossline.cli.launch.engine import begin_engine
from crossline.cli.launch.process import (
    be_alone,
    close_to_others,
    do_with_one_blas_thread,
    do_without_pydantic_plugins,
    leave,
    open_standard_streams,
)
from crossline.cli.logs import configure
from crossline.runtime.machine.garbage import OBJECTS_AT_START, collect_seldom


def main() -> None:
    """Run the command line; exit 0 done, 1 the answer is no or work failed, 2 wrong use, 128 + a signal's number."""
    collect_seldom(OBJECTS_AT_START)
    be_alone()
    do_without_pydantic_plugins()
    do_with_one_blas_thread()
    open_standard_streams()
    configure()
    begin_engine(sys.argv[1:])
    leave(run_command(sys.argv[1:]))


def run_command(arguments: Sequence[str]) -> int:
    """Run one command line; return its exit code. Errors are printed on the standard error."""
    from crossline.cli.exit_status import check_arguments, outcome

    def run() -> object:
        check_arguments(arguments)
        close_to_others(arguments)
        from crossline.cli.app import app

        return app(list(arguments), prog_name="crossline", standalone_mode=False)

    return outcome(run)


if __name__ == "__main__":
    main()
