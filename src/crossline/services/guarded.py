"""Servers that are started for somebody, and go when that process is gone, however it went."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

# A reader waits on a pipe whose other end is ours. When we are gone, however we went, the pipe ends, and the reader
# kills the server ($$) and removes its folder ($0). The server takes the shell's place, so we can wait for its end.
_GUARD = 'exec 3<&0; (read -r _ <&3; kill -KILL $$; rm -rf "$0") & exec "$@" 3<&- </dev/null'


def start_guarded(command: Sequence[str], folder: Path, log_file: Path) -> subprocess.Popen[bytes]:
    """Start ``command`` in ``folder``, which goes with it when we are gone."""
    with log_file.open("ab") as log:
        return subprocess.Popen(
            ["/bin/sh", "-c", _GUARD, str(folder), *command],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            cwd=folder,
            start_new_session=True,
        )


def end_at_once(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a server and all of its session, as a crash would; wait until it is gone."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdin is not None:
        process.stdin.close()
