"""A process that forks commands, as the server has it: started by who asks first, and anew where it is gone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import orjson

MODULE = "crossline.serve.http.fork_server.server"
IDLE_S = 600.0
_GRACE_S = 5.0


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that has ended: its exit code, less than 0 where a signal ended it; its output; its standard error."""

    code: int
    out: bytes
    stderr: bytes


class ForkServer:
    """Runs commands in forks of one process, for any event loop of one thread at a time.

    ``modules``: what that process loads beforehand; ``idle_s``: after so long without a command it ends, and gives its
    memory back.
    """

    def __init__(self, modules: Sequence[str], idle_s: float = IDLE_S) -> None:
        self._command = [sys.executable, "-m", MODULE, str(idle_s), *modules]
        self._process: subprocess.Popen[bytes] | None = None
        self._asked: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that is forked; None if there is none."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    async def run(self, arguments: Sequence[str]) -> Ended | None:
        """What came of ``crossline ARGUMENTS``; None if it did not begin, so that it can be run otherwise.

        A command without a waiting caller is ended.
        """
        asked = self._started()
        ours, theirs = zip(*(os.pipe() for _ in range(3)), strict=True)
        try:
            socket.send_fds(asked, [orjson.dumps(list(arguments))], theirs)
        except OSError:  # it ended, or takes nothing
            for each in ours:
                os.close(each)
            return None
        finally:
            for each in theirs:
                os.close(each)
        out, stderr, exit_pipe = [await _Pipe.of(each) for each in ours]
        try:
            return await _exit_of(out, stderr, exit_pipe)
        finally:
            for each in (out, stderr, exit_pipe):
                each.transport.close()

    async def close(self) -> None:
        """End it, and the commands that it runs."""
        if self._asked is not None:
            self._asked.close()
            self._asked = None
        if self._process is not None:
            self._process.kill()
            await asyncio.to_thread(self._process.wait)

    def _started(self) -> socket.socket:
        if self._asked is None or self.pid is None:
            if self._asked is not None:
                self._asked.close()
            self._asked, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._asked.setblocking(False)
            with theirs:
                self._process = subprocess.Popen(self._command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL)
        return self._asked


@dataclass(slots=True)
class _Pipe:
    reader: asyncio.StreamReader
    transport: asyncio.ReadTransport

    @classmethod
    async def of(cls, descriptor: int) -> _Pipe:
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: protocol, os.fdopen(descriptor, "rb", 0)
        )
        return cls(reader, transport)


async def _exit_of(out: _Pipe, stderr: _Pipe, exit_pipe: _Pipe) -> Ended | None:
    begun = asyncio.ensure_future(exit_pipe.reader.readline())
    code = b""
    try:
        if not await asyncio.shield(begun):
            return None
        found = await asyncio.gather(out.reader.read(), stderr.reader.read())
        code = await exit_pipe.reader.readline()
        return Ended(int(code) if code else -signal.SIGKILL, *found)
    finally:
        if not code:
            await asyncio.shield(_end(begun, exit_pipe))


async def _end(begun: asyncio.Future[bytes], exit_pipe: _Pipe) -> None:
    """End a fork and those that it started: asked first, so that it leaves nothing half done."""
    with suppress(TimeoutError):
        number = await asyncio.wait_for(begun, _GRACE_S)
        if not number:
            return
        for each in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(int(number), each)
            with suppress(TimeoutError):
                await asyncio.wait_for(exit_pipe.reader.readline(), _GRACE_S)
                return
