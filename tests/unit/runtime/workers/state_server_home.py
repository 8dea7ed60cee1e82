"""Spark's daemon and workers before state servers, as a program: ``FOLDER``, then a request a line.

A request is the name of a file in the folder: pickled (judging, parts by shard, state servers). A worker is forked for
it, which writes the pickled rows of each shard, or the error, into ``NAME.answer``; its pid stands on the output first,
its exit status when it is done. ``NAME!`` does not wait for it. ``NAME?``: what is to be read ahead, as JSON.
``NAME&``: pickled (judging, shards, state servers), of shards that another home judges; ``NAME%``: returns once they
are read.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import sys
from pathlib import Path

from crossline.runtime.work.stopwatch import Stopwatch
from crossline.runtime.workers import read_ahead, state_server, state_servers
from crossline.runtime.workers.state_servers import judge_shards


def work(request: Path) -> None:
    judging, parts, count = pickle.loads(request.read_bytes())  # noqa: S301 - the test's own
    state_servers.processors = lambda: count  # also where the machine has one alone
    try:
        answer = list(judge_shards(judging, parts, count, Stopwatch()))
    except Exception as error:  # noqa: BLE001 - it is the answer
        answer = error
    spill_folder = request.with_suffix(".tmp")
    spill_folder.write_bytes(pickle.dumps(answer))
    spill_folder.replace(request.with_suffix(".answer"))


def ask_ahead(request: Path) -> None:
    given = json.loads(request.read_bytes())
    read_ahead.processors = lambda: given["cores"]
    read_ahead.ask(given)


def follow(request: Path) -> None:
    judging, shards, count = pickle.loads(request.read_bytes())  # noqa: S301 - the test's own
    state_servers.processors = lambda: count
    state_servers.follow(judging, shards, count)


def read_now(request: Path) -> None:
    judging, shards, count = pickle.loads(request.read_bytes())  # noqa: S301 - the test's own
    state_servers.processors = lambda: count
    state_servers.read_now(judging, shards, count)


def say(what: object) -> None:
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


def main() -> None:
    folder = Path(sys.argv[1])
    state_server.open_state_server_folder()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    where = state_server.state_server_folder()
    say(where.folder if where else "")
    for line in sys.stdin:
        name = line.strip()
        pid = os.fork()
        if pid == 0:
            of = {"?": ask_ahead, "&": follow, "%": read_now}
            of.get(name[-1], work)(folder / name.rstrip("!?&%"))
            os._exit(0)
        say(pid)
        if not name.endswith("!"):
            say(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


if __name__ == "__main__":
    main()
