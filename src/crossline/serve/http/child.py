"""``python -m crossline.serve.http.child PARENT ARGUMENT...``: the command line, which ends with its parent.

The kernel ends it where the parent is killed and could not.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_SET_PDEATHSIG = 1


def main() -> None:
    """Become the command line."""
    parent, arguments = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # it went before the kernel was asked
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-m", "crossline.cli.main", *arguments])  # noqa: S606 - our own


if __name__ == "__main__":
    main()
