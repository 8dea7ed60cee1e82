"""A program that runs as another account of this machine: tries every port, socket and folder of its input.

``nobody.py UID`` with a JSON object on the standard input: ``ports``, ``sockets`` and ``folders`` that it tries, and
``held``, the ports to each of which it opens and holds ``idle`` connections. A line of JSON says what it got to; it
ends with its standard input.
"""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
from contextlib import suppress
from typing import Any

# A broken peer may say nothing for ever. Who answers at all does so at once; a busy machine takes its time.
SILENT_S = 5.0
HELD_S = 0.5  # for a peer that neither answers nor closes
HOST = "127.0.0.1"


def text(value: str) -> bytes:
    """As Java's ``writeUTF`` has it, of letters that are one byte each."""
    return struct.pack(">H", len(value)) + value.encode("ascii")


def rpc(body: bytes) -> bytes:
    """A request of Spark's network state store: length of the frame, kind, number, length of the body, body."""
    return struct.pack(">qbqi", 8 + 1 + 8 + 4 + len(body), 3, 77, len(body)) + body


def to_endpoint(port: int) -> bytes:
    """A message to the driver's endpoint that all may ask: from nobody, to host, port and name, a Java string."""
    address = b"\x00" + b"\x01" + text(HOST) + struct.pack(">i", port) + text("endpoint-verifier")
    return rpc(address + bytes.fromhex("aced000574") + text("hello"))


# To open no blocks at all, of an application and an executor of any name.
OPEN_BLOCKS = rpc(b"\x00" + struct.pack(">i3s", 3, b"app") + struct.pack(">i1s", 1, b"0") + struct.pack(">i", 0))
JAVA_CALL = b"c\nz:java.lang.System\ngetProperty\nsjava.version\ne\n"
PYTHON_CALL = b"c\np0\n__repr__\ne\n"
HTTP = b"GET / HTTP/1.0\r\n\r\n"


def response(port: int, asked: bytes) -> bytes:
    """What comes back, up to the end or to silence."""
    found = b""
    with suppress(OSError), socket.create_connection((HOST, port), SILENT_S) as connection:
        connection.sendall(asked)
        connection.settimeout(HELD_S)
        while len(found) < 1 << 16 and (part := connection.recv(1 << 12)):
            found += part
    return found


def tried(port: int) -> list[str]:
    """What was answered that only friends should be."""
    got = []
    for name, asked in (("java", JAVA_CALL), ("python", PYTHON_CALL)):
        if response(port, asked).startswith(b"!y"):
            got.append(f"{name} called at {port}")
    if b"Unsupported message" in response(port, to_endpoint(port)):
        got.append(f"message delivered at {port}")
    if response(port, OPEN_BLOCKS)[8:9] == b"\x04":
        got.append(f"blocks opened at {port}")
    if response(port, HTTP).startswith(b"HTTP/"):
        got.append(f"page served at {port}")
    return got


def connected(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(SILENT_S)
        try:
            client.connect(path)
        except OSError:
            return False
        return True


def readable(folder: str) -> list[str]:
    """Folders that can be listed and files that can be read, at and below ``folder``."""
    found = [folder] if os.access(folder, os.R_OK) else []
    for root, folders, files in os.walk(folder):
        found += [path for name in (*folders, *files) if os.access(path := os.path.join(root, name), os.R_OK)]  # noqa: PTH118
    return found


def hold(ports: list[int], count: int) -> list[socket.socket]:
    held = []
    for port in ports:
        for _ in range(count):
            with suppress(OSError):
                held.append(socket.create_connection((HOST, port), SILENT_S))
    return held


def main() -> None:
    uid = int(sys.argv[1])
    HOST.encode("idna")  # loaded while it can still be: Python's own files may be closed to nobody
    asked: dict[str, Any] = json.loads(sys.stdin.readline())
    if uid != os.getuid():
        os.setgroups([])
        os.setresgid(uid, uid, uid)
        os.setresuid(uid, uid, uid)
    got = [each for port in asked["ports"] for each in tried(port)]
    got += [f"connected to {path}" for path in asked["sockets"] if connected(path)]
    got += [f"read {path}" for folder in asked["folders"] for path in readable(folder)]
    held = hold(asked["held"], asked["idle"])
    sys.stdout.write(json.dumps({"got": got, "held": len(held)}) + "\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
