"""What Spark starts as Python: hands over to a fork of ``zygote``, or where there is none becomes Python itself.

``zygote_client.py PYTHON ARGUMENTS…``. Run without site packages and on its own: it is to take no time.
"""

from __future__ import annotations

import json
import os
import socket
import sys


def request_fork(path: str, module: str, arguments: list[str], descriptors: list[int]) -> socket.socket:
    """Have a fork of the process at ``path`` run ``module``, with these three descriptors for its standard streams.

    Raises OSError where there is none.
    """
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes as long to load as all else here
    request = {"module": module, "arguments": ["-m", *arguments], "folder": folder, "environment": dict(os.environ)}
    body = json.dumps(request).encode()
    socket.send_fds(connection, [len(body).to_bytes(8, "little")], descriptors)
    connection.sendall(body)
    return connection


def main() -> None:
    """Run the requested module in a fork of the zygote, or else in this process."""
    python, *arguments = sys.argv[1:]
    path = os.environ.get("CROSSLINE_ZYGOTE")
    connection = None
    if path and arguments[:1] == ["-m"] and len(arguments) > 1:
        try:
            connection = request_fork(path, arguments[1], arguments[2:], [0, 1, 2])
        except OSError:
            connection = None
    if connection is None:
        os.execv(python, [python, *arguments])  # noqa: S606 - it becomes the requested program
    for number in (0, 1):  # theirs now: what waits for their end must not wait for this process
        os.close(number)
    code = connection.recv(1)
    os._exit(code[0] if code else 1)


if __name__ == "__main__":
    main()
