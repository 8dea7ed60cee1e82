"""What a process may do to itself that runs one command and nothing else."""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import NoReturn

from crossline.basics.errors import UsageError
from crossline.runtime.machine.dataclass_code import write_dataclass_code

UMASK_VARIABLE = "CROSSLINE_UMASK"
_OTHERS = 0o077
# What these commands write is a project's, for people to share: it gets the rights that all their files get.
_SHARED = ("init", "rules")


@dataclass(slots=True)
class _Process:
    """Whether it is one."""

    alone: bool = False


_process = _Process()


class _NoPandas:
    """Finds modules, but reports pandas as missing."""

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


def do_without_pydantic_plugins(environment: MutableMapping[str, str] = os.environ) -> None:
    """Pydantic looks through all installed packages for plugins that watch what it validates; none is to watch ours.

    Only where this process is alone, and its user has not said which are to. Call it before pydantic is imported.
    """
    if _process.alone:
        environment.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def do_with_one_blas_thread(environment: MutableMapping[str, str] = os.environ) -> None:
    """None of our arithmetic is a library's for matrices, whose threads spin for a tenth of a second when it loads.

    Only where this process is alone, and its user has not said how many there are to be. Call it before numpy is
    imported.
    """
    if _process.alone:
        environment.setdefault("OPENBLAS_NUM_THREADS", "1")


def open_standard_streams() -> None:
    """Where a stream was closed by who started us, nothing of ours must get its number; its texts go nowhere.

    What a screen cannot show in its encoding is written out.
    """
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        try:
            os.fstat(number)
        except OSError:
            nothing = os.open(os.devnull, os.O_RDWR)
            if nothing != number:
                os.dup2(nothing, number)
                os.close(nothing)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, encoding="utf-8", closefd=False))
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def close_to_others(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """New files of this process and of all that it starts hold records: 0600 in folders 0700, or by the given mask.

    What is there keeps its rights, and so does a process that others share. Raises UsageError if the given mask is no
    mask.
    """
    if not _process.alone or (arguments and arguments[0] in _SHARED):
        return
    mask = environment.get(UMASK_VARIABLE)
    if mask is None:
        os.umask(os.umask(_OTHERS) | _OTHERS)
    elif re.fullmatch("0?0[0-7][0-7]", mask, re.ASCII):
        os.umask(int(mask, 8))
    else:
        raise UsageError(
            f"{UMASK_VARIABLE} is {mask!r}; expected three octal digits, the first of them 0: 077 (only this user "
            "reads what a run writes, the default), 027 (its group reads it too) or 022 (all users read it)"
        )


def leave(code: int) -> NoReturn:
    """End as ``sys.exit`` does, all that is to be done at the end included; only then at once.

    Python would take its objects apart first, half a second where compiled kernels are loaded, and then be gone anyway.
    """
    if all(thread.daemon for thread in threading.enumerate() if thread is not threading.main_thread()):
        atexit._run_exitfuncs()  # noqa: SLF001 - nothing else does it without the rest
        write_dataclass_code()
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
