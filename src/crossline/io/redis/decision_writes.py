"""Writes decisions to Redis: by one command where none of their records has one yet, else by a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import redis
from redis import exceptions as errors

from crossline.io.redis.scripts import WRITE_DECISIONS

SET_MANY = "MSETEX"  # Valkey 9.1, Redis 8.4: sets many keys for a time, all of them or, where one is there, none
SET_EACH = 500  # decisions of one such command, during which the server answers nobody else (2 ms)
SCRIPT_EACH = 200  # decisions of one script, which takes as long for them
BYTES_EACH = 1 << 20  # of one command
PIPELINE_BYTES = 4 << 20  # of commands sent together, which have one deadline

Piece = tuple[Sequence[bytes], Sequence[bytes]]  # keys, and the decision of each


class DecisionWrites:
    """Sets each key to its decision unless it has a newer one; the keys last ``seconds``.

    Nearly all decisions are the first on their record. SET_MANY then takes a third of the script's time, and the server
    writes one entry to its log. A server or user without that command gets scripts from the first refusal on. What is
    refused for another reason is left to a script too: a proxy has words of its own for a command that it does not
    know, and where something else is wrong, the script is refused as well.
    """

    def __init__(self, seconds: int) -> None:
        self._seconds = seconds
        self._sets_many = True

    def write(self, client: redis.Redis, keys: Sequence[bytes], lines: Sequence[bytes]) -> None:
        """Write ``lines`` (JSON), each under its key; of two with one key the newer stays, of equals the last.

        Raises what the client raises.
        """
        alone = len(set(keys)) == len(keys)  # else their order counts, which the script keeps
        fresh = alone and self._sets_many
        for group in _groups(_pieces(keys, lines, SET_EACH if fresh else SCRIPT_EACH)):
            left = self._refused(client, group) if fresh else group
            fresh = fresh and not left  # what comes again comes again as a whole, mostly
            if left:
                self._compared(client, left)

    def _refused(self, client: redis.Redis, group: Sequence[Piece]) -> list[Piece]:
        """Set what is new; the pieces in which something was there, or that the server does not take so."""
        pipe = client.pipeline(transaction=False)
        for keys, lines in group:
            pairs = [each for pair in zip(keys, lines, strict=True) for each in pair]
            pipe.execute_command(  # type: ignore[no-untyped-call]
                SET_MANY, len(keys), *pairs, "NX", "EX", self._seconds
            )
        left = []
        for piece, answer in zip(group, pipe.execute(raise_on_error=False), strict=True):
            if isinstance(answer, errors.ResponseError):
                self._sets_many = self._sets_many and not _unknown(answer)
            elif isinstance(answer, Exception):
                raise answer
            if answer != 1:
                left.append(piece)
        return left

    def _compared(self, client: redis.Redis, group: Sequence[Piece]) -> None:
        script = client.register_script(WRITE_DECISIONS)
        pipe = client.pipeline(transaction=False)
        for given in group:
            for keys, lines in _pieces(*given, SCRIPT_EACH):
                script(keys=keys, args=[self._seconds, *lines], client=pipe)
        pipe.execute()


def _unknown(error: Exception) -> bool:
    """Whether the server does not know the command, or the user may not give it."""
    text = str(error).lower()
    refused = isinstance(error, errors.NoPermissionError) and "command" in text
    return refused or (isinstance(error, errors.ResponseError) and "unknown command" in text)


def _pieces(keys: Sequence[bytes], lines: Sequence[bytes], each: int) -> Iterator[Piece]:
    longest = max(map(len, lines), default=0)
    step = max(1, min(each, BYTES_EACH // max(longest, 1)))
    for at in range(0, len(keys), step):
        yield keys[at : at + step], lines[at : at + step]


def _groups(pieces: Iterator[Piece]) -> Iterator[list[Piece]]:
    """The pieces in groups of at most PIPELINE_BYTES, or of one."""
    group: list[Piece] = []
    size = 0
    for keys, lines in pieces:
        mine = sum(map(len, lines))
        if group and size + mine > PIPELINE_BYTES:
            yield group
            group, size = [], 0
        group.append((keys, lines))
        size += mine
    if group:
        yield group
