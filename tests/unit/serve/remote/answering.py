"""An API without its HTTP, in a process of its own, over a checkpoint on a store and a ledger in PostgreSQL.

A record a line in; out, a line of JSON with its status and its body. See ``test_two``. Its stream keeps nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson
from dev.services.postgres import LocalPostgres
from tests.unit.serve.decisions.fakes import FakeOutbox, FakeStream
from tests.unit.serve.replica.conftest import SPEC, STREAM

from crossline.io.objects.file_stores import LocalFiles
from crossline.serve.decisions.adapters import LedgerAnswers
from crossline.serve.decisions.interfaces import ServiceParts
from crossline.serve.decisions.records import StreamRecords
from crossline.serve.decisions.service import DecisionService
from crossline.serve.decisions.values import LogPosition, SubmittedRecord
from crossline.serve.ledger.factory import ledger_of
from crossline.serve.remote.store_follower import StoreFollower
from crossline.serve.replica.answers import ReplicaLimits
from crossline.serve.replica.replicas import Replicas
from crossline.settings.process.serve import ServeSettings


class Topic:
    """Takes all; of two of one id the pipeline knows the first."""

    def __init__(self) -> None:
        self._at = 0

    async def append(self, asked: Sequence[SubmittedRecord]) -> list[LogPosition]:
        first, self._at = self._at, self._at + len(asked)
        return [LogPosition("payments-0", first + number) for number in range(len(asked))]

    async def close(self) -> None:
        pass


class Fallback:
    """Says what no rule does."""

    version = 1

    def decide(self, _: SubmittedRecord) -> str:
        return "step_up"


async def main(store: str, port: str, schema: str, password_file: str) -> None:
    given = {"host": LocalPostgres.host, "port": int(port), "user": LocalPostgres.user, "dbname": LocalPostgres.dbname}
    ledger = {**given, "password_file": password_file, "schema": schema}
    settings = ServeSettings.model_validate({"ledger": ledger})
    follower = StoreFollower("s3://bank/checkpoint", 0.02, LocalFiles(Path(store)))
    await follower.start()
    replicas = Replicas(str(follower.folder), bounds=ReplicaLimits(unseen_ms=follower.unseen_ms))
    await replicas.start()
    group, _ = ledger_of(settings, [STREAM])
    parts = ServiceParts(
        records=StreamRecords({STREAM: SPEC}),
        judge=replicas,
        stream=FakeStream(),
        ledger=LedgerAnswers(group),
        outbox=FakeOutbox(),
        logs={STREAM: Topic()},
        fallback=Fallback(),
    )
    decisions = DecisionService(parts)
    while not replicas.lag().ready:  # noqa: ASYNC110 - other processes say when
        await asyncio.sleep(0.01)
    say({"ready": replicas.lag().batch})
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    working = set()
    while line := await lines.readline():
        working.add(asyncio.create_task(answer(decisions, line.rstrip())))
    await asyncio.gather(*working)
    await decisions.close()
    await group.close()
    await replicas.close()
    follower.close()


async def answer(decisions: DecisionService, record: bytes) -> None:
    reply = await decisions.decide(STREAM, record, "peek", 5.0)
    say({"id": orjson.loads(record)["id"], "status": int(reply.status), "body": reply.body.decode()})


def say(body: dict[str, object]) -> None:
    sys.stdout.write(orjson.dumps(body).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
