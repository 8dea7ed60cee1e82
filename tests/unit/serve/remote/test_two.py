"""Two APIs over one checkpoint and one ledger: one is killed while it is asked, and the caller asks the other."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
from tests.connectors.postgres_kit import place_in
from tests.unit.serve.replica.conftest import BURST, Asks, snapshot_of

from crossline.io.objects.file_stores import LocalFiles
from crossline.runtime.state_log import cache as caching
from crossline.serve.ledger.postgres.reads import check_postgres

from .stored import StoredPipeline

if TYPE_CHECKING:
    from dev.services.postgres import LocalPostgres


class Api:
    """``answering`` in a process."""

    def __init__(self, store: Path, server: LocalPostgres, schema: str) -> None:
        command = [sys.executable, "-m", "tests.unit.serve.remote.answering", str(store)]
        given = [*command, str(server.port), schema, str(server.password_file)]
        self.process = subprocess.Popen(given, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, *records: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(each + b"\n" for each in records))
        self.process.stdin.flush()

    def next_message(self) -> dict[str, Any]:
        """Its next message, without lines of its log; empty once it has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(b"{"):
                return dict(orjson.loads(line))
        return {}


@contextmanager
def running(store: Path, server: LocalPostgres, schema: str) -> Iterator[Api]:
    api = Api(store, server, schema)
    try:
        yield api
    finally:
        api.process.kill()
        api.process.wait()
        for stream in (api.process.stdin, api.process.stdout):
            if stream is not None:
                stream.close()


def test_a_caller_that_asks_another_gets_the_same_answer(
    postgres_server: LocalPostgres, postgres_schema: str, tmp_path: Path
) -> None:
    caching._CACHE.clear()
    root, asks = tmp_path / "store", Asks()
    stored = StoredPipeline(tmp_path / "driver", LocalFiles(root), str(root / "state"), snapshot_of(BURST))
    stored.batch([each.raw for each in asks.records(2)])
    records = {each.record_id: each.raw for each in (asks.record(f"a{number % 7}") for number in range(60))}
    with ExitStack() as both:
        one, two = (both.enter_context(running(root, postgres_server, postgres_schema)) for _ in range(2))
        assert [one.next_message(), two.next_message()] == [{"ready": 0}] * 2
        one.ask(*records.values())
        first = [one.next_message() for _ in range(5)]
        one.process.kill()
        while (more := one.next_message()).get("id"):
            first.append(more)
        two.ask(*records.values())
        second = [two.next_message() for _ in records]
        again = [each for each in second if each["status"] == 503]  # what was still thought to be under way elsewhere
        two.ask(*(records[each["id"]] for each in again))
        second = [each for each in second if each["status"] != 503] + [two.next_message() for _ in again]
    assert {each["status"] for each in [*first, *second]} == {200}
    bodies = {each["id"]: each["body"] for each in second}
    assert bodies.keys() == records.keys(), "every record is answered"
    assert all(bodies[each["id"]] == each["body"] for each in first), "an id has one answer"
    checked = check_postgres(place_in(postgres_server, postgres_schema))
    assert checked.faults == []
    assert sum(checked.chains.values()) == len(records)
    assert len(checked.chains) == 2
