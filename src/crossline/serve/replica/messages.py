"""Messages between followers, their forks and their clients: each behind its length, on sockets of one user.

A socket lies in a folder that only this user can enter, and who connects must be this user: what comes is unpickled.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from crossline.serve.decisions.values import Basis
from crossline.serve.replica.entity import KeyAsked, KeyFigures
from crossline.serve.replica.overlay import JudgedRecord, Laid

_LENGTH = struct.Struct("<I")
BYTES_MAX = 1 << 30
FOLLOWER, FORK, DRY = "follower", "fork", "dry"
WITHIN_S = 10.0  # a dry run that takes longer is ended


@dataclass(frozen=True, slots=True)
class Hello:
    """Who connects: a follower, or a fork of one, with the batch that it stands at (-1: before the first).

    ``token``: of a copy of a fork, that of what it was asked.
    """

    what: str
    number: int
    pid: int
    batch: int = -1
    token: int = 0


@dataclass(frozen=True, slots=True)
class Alive:
    """A follower is well, and has followed up to ``batch``. ``spent_ms``: by what it went to, since the last word."""

    batch: int
    spent_ms: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ForkNow:
    """To a follower: the fork that there was is gone."""


@dataclass(frozen=True, slots=True)
class ForkRequest:
    """``lay`` is laid over in this order; then a copy judges each list of ``dry`` by itself, which leaves nothing.

    Or it computes the figures of a key, which leaves as little.

    ``token``: by which that copy returns its result, on a connection of its own.
    """

    lay: Sequence[Laid] = ()
    dry: Sequence[Sequence[Laid] | KeyAsked] = ()
    token: int = 0


@dataclass(frozen=True, slots=True)
class ForkReply:
    """The reply to a ``ForkRequest``: for each record of ``lay`` (nothing if unwanted); from a copy, for ``dry``.

    ``laid``: so many records are laid over now. ``basis``: what was in force, by the number of the record in ``lay``
    and of lists in ``dry`` as digests; ``known``: those that were not sent before. ``error``: why there is none.
    Judging took ``spent_ms``, of which ``cpu_ms`` on a processor.
    """

    laid: int = 0
    judged: Sequence[tuple[JudgedRecord, str]] = ()
    dry: Sequence[Sequence[tuple[JudgedRecord, str]] | KeyFigures] = ()
    known: Sequence[Basis] = ()
    error: str = ""
    spent_ms: float = 0.0
    cpu_ms: float = 0.0


def packed(message: Any) -> bytes:
    """As it travels."""
    raw = pickle.dumps(message, protocol=5)
    return _LENGTH.pack(len(raw)) + raw


def send(to: socket.socket, message: Any) -> None:
    """Send it all."""
    to.sendall(packed(message))


def receive(of: socket.socket) -> Any:
    """The next message; raises EOFError where the other end is gone."""
    (length,) = _LENGTH.unpack(_exactly(of, _LENGTH.size))
    return pickle.loads(_exactly(of, length))  # noqa: S301 - from a process of this user only


def _exactly(of: socket.socket, count: int) -> bytes:
    raw = bytearray()
    while len(raw) < count:
        more = of.recv(min(count - len(raw), 1 << 20))
        if not more:
            raise EOFError("the other end is gone")
        raw += more
    return bytes(raw)


async def received(reader: asyncio.StreamReader) -> Any:
    """The next message; raises EOFError where the other end is gone."""
    (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
    return pickle.loads(await reader.readexactly(length))  # noqa: S301 - as above


def is_mine(peer: Any) -> bool:
    """Whether the other end of a Unix socket is a process of this user; where the system cannot say, it is."""
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return True
    raw = peer.getsockopt(socket.SOL_SOCKET, option, struct.calcsize("3i"))
    return bool(struct.unpack("3i", raw)[1] == os.getuid())
