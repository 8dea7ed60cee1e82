"""What a process may do to itself that runs one command and nothing else."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from dataclasses import dataclass
from typing import NoReturn


@dataclass(slots=True)
class _Process:
    """Whether it is one."""

    alone: bool = False


_process = _Process()


class _NoPandas:
    """Finds modules, and says of pandas that it is not there."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> None:  # noqa: ARG004 - the protocol's
        """Python asks each finder in turn."""
        if name == "pandas":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def be_alone() -> None:
    """This process ends with the command that it is about to run."""
    _process.alone = True


def do_without_pandas() -> None:
    """Arrow loads pandas at the first value that it converts, a quarter of a second, for values that none of ours is.

    Where pandas seems not to be installed, it does without. A process that others share, who may want pandas, is left
    as it is; so is one in which pandas is.
    """
    if _process.alone and "pandas" not in sys.modules:
        sys.meta_path.insert(0, _NoPandas)


def leave(code: int) -> NoReturn:
    """End as ``sys.exit`` does, all that is to be done at the end included; only then at once.

    Python would take its objects apart first, half a second where compiled kernels are loaded, and then be gone anyway.
    """
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()  # noqa: SLF001 - nothing else does it without the rest
        if _flushed():
            os._exit(code)
    sys.exit(code)


def _flushed() -> bool:
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        return False
    return True
