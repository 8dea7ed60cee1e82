"""What a process may do to itself that runs one command and nothing else."""

from __future__ import annotations

import sys
from dataclasses import dataclass


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
