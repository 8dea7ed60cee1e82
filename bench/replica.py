"""The latency of a read replica: R5 and a policy, open loop, single records, without HTTP.

``python -m bench.replica [--rate 500] [--seconds 10] [--batch-ms 200] [--others 2000]``. A process plays the pipeline
(judging and state log, without Spark). Every ``batch-ms`` it runs a batch of the records asked about and of ``others``
further records per second; 0 means no batches. Prints latencies, and processor time per request by process and by part.

``--retained N``: one rule with a window of a day over N records, which the replica holds. ``--kills N``: then SIGKILL
ends the forks of the follower, one of which answers, N times, and N times the follower as well. The time runs until a
record is judged; calls that are refused meanwhile are repeated.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import re
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import orjson

from bench.recovery import SETS
from bench.workload import STREAM, rule_set, stream_spec
from crossline.basics.streams.schema import StreamSpec
from crossline.evaluate.bounds import Bounds
from crossline.generate.tx import TxWorkload
from crossline.ingest.decode import decode_lines
from crossline.ingest.route.partitioner import Chunk
from crossline.rules.base import Defaults
from crossline.rules.policy.policy import Deciding, Policy
from crossline.rules.rule_reader import read_rule
from crossline.rules.ruleset import RuleSet
from crossline.runtime.snapshot.snapshot import PlanSnapshot, SnapshotFile
from crossline.runtime.stages.shard_judge import ShardJudge, part_rows
from crossline.runtime.stages.stages import parts_of
from crossline.runtime.state_log.cache import ShardCache
from crossline.runtime.work.stopwatch import Stopwatch
from crossline.serve.decisions.values import LogPosition, NotJudgedError, SubmittedRecord
from crossline.serve.replica.replicas import Replicas

WARM = 200_000  # records before the first question
WARM_BATCHES = 10  # in which they are judged
RETRY_S = 0.01  # between calls while none is answered
SHARDS = 4
POLICY = {
    "schema_version": 1,
    "version": 1,
    "bands": [{"from": 0, "decision": "allow"}, {"from": 30, "decision": "review"}],
}


class Played:
    """The pipeline: batches of lines, in the state log and in what Spark would note."""

    def __init__(self, folder: Path, *, retained: bool) -> None:
        bodies = SETS["R1"] if retained else rule_set("R5")
        rules = [read_rule({**body, "action": "review", "score": 40})[0] for body in bodies]
        streams = {STREAM: StreamSpec.model_validate(stream_spec())}
        deciding = Deciding(Policy.model_validate(POLICY))
        made = RuleSet.from_rules(rule for rule in rules if rule is not None)
        self.folder, self.file = folder, SnapshotFile(str(folder / "snapshot.json"))
        self.file.replace(PlanSnapshot(made, streams, Defaults(), SHARDS, Bounds(60_000), deciding=deciding))
        (folder / "owner.json").write_bytes(orjson.dumps({"sources": [{"stream": STREAM, "kind": "api"}]}))
        self.cache = ShardCache(str(folder / "state"), per_query=False, held_max=SHARDS)
        self.batches = self.chunks = self.at = 0
        self.list = folder / "sources" / STREAM / "chunks.jsonl"
        self.list.parent.mkdir(parents=True)
        self.list.write_text('{"file": 0, "name": "f", "path": "f", "device": 1, "inode": 1}\n')

    def batch(self, *pieces: bytes) -> None:
        """The first piece is that of the API's log; others are listed as if they were in it."""
        snapshot, given = self.file.current(), dict[int, list[bytes]]()
        for number, data in enumerate(pieces):
            decoded = decode_lines(snapshot.decoder(STREAM), data, STREAM, self.chunks << 32)
            for _, shard, _, body in part_rows(parts_of(snapshot, decoded.records, Chunk(STREAM, self.chunks, STREAM))):
                given.setdefault(shard, []).append(body)
            self.at += len(data) if not number else 0
            line = {"sequence": self.chunks, "file": 0, "start": 0, "end": self.at, "tail": "", "listed_ms": 0}
            with self.list.open("ab") as file:
                file.write(orjson.dumps(line) + b"\n")
            self.chunks += 1
        self._note("offsets", f'v1\n{{"batchTimestampMs": 0}}\n{{"chunk": {self.chunks}}}')
        for shard in range(SHARDS):
            ShardJudge(self.file, self.cache, "q", self.batches, 1).shard(shard, given.get(shard, []), Stopwatch())
        self._note("commits", "v1\n{}")
        self.batches += 1

    def _note(self, log: str, text: str) -> None:
        path = self.folder / "spark" / log / str(self.batches)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def play(folder: str, asked: Connection, batch_ms: int, others: int, retained: int) -> None:
    """A process that judges batches until the requests end; ``retained``: records of a day, 0: as they come."""
    played, load, at = Played(Path(folder), retained=retained > 0), TxWorkload(rate_per_s=2_000), 0
    warm = retained or WARM
    while at < warm:
        played.batch(b"", load.lines(at, min(WARM, warm) // WARM_BATCHES))
        at += min(WARM, warm) // WARM_BATCHES
    asked.send("warm")
    due_s = time.monotonic()
    while batch_ms:
        due_s = max(time.monotonic(), due_s + batch_ms / 1e3)
        mine, ended = bytearray(), False
        while not ended and asked.poll(max(0.0, due_s - time.monotonic())):
            found = asked.recv_bytes()
            ended, mine = not found, mine + found
        if ended:
            return
        more = others * batch_ms // 1_000
        played.batch(bytes(mine), load.lines(at, more))
        at += more
    while asked.recv_bytes():
        pass


def cpu_s(pids: list[int]) -> float:
    """Processor time of processes and of their children that ended."""
    total = 0
    for pid in pids:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        total += sum(int(each) for each in fields[11:15])
    return total / os.sysconf("SC_CLK_TCK")


def latency_row(took: list[float]) -> dict[str, Any]:
    """Latencies in ms; from when a record was due."""
    took.sort()
    shares = {"p50_ms": 0.5, "p99_ms": 0.99, "p99_9_ms": 0.999}
    return {"answered": len(took), **{name: round(took[int(len(took) * share)], 2) for name, share in shares.items()}}


def a_second(before: dict[str, float], after: dict[str, float], wall_s: float) -> dict[str, float]:
    """What was added to each, a second."""
    return {name: round((ms - before.get(name, 0.0)) / wall_s, 1) for name, ms in after.items()}


async def loss(replicas: Replicas, ask: Callable[[], Awaitable[bool]], *, everything: bool) -> dict[str, float]:
    """Seconds from SIGKILL to the forks of the one follower, or to it as well, until a record is judged again.

    ``follow_s``: what the new follower spends of it to read the log; ``cpu_s``: processor time of what lives after it.
    """
    while not await ask():  # noqa: ASYNC110 - as a client repeats it
        await asyncio.sleep(RETRY_S)
    pids, before, began_s = replicas.pids(), replicas.followers_ms(), time.perf_counter()
    killed = pids if everything else pids[1:]
    spent_s = cpu_s([pid for pid in pids if pid not in killed])
    for pid in killed:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    while not await ask():  # noqa: ASYNC110 - as above
        await asyncio.sleep(RETRY_S)
    answered_s, after = time.perf_counter() - began_s, replicas.followers_ms()
    follow_ms = after["follow"] - before.get("follow", 0.0)
    spent_s = cpu_s(replicas.pids()) - spent_s
    return {"answered_s": round(answered_s, 3), "follow_s": round(follow_ms / 1e3, 3), "cpu_s": round(spent_s, 2)}


async def losses(replicas: Replicas, ask_more: Callable[[], Awaitable[bool]], kills: int) -> dict[str, Any]:
    """How long nothing is answered after a fork was killed, and after all were; each ``kills`` times."""
    which = (("fork_killed", False), ("all_killed", True)) if kills else ()
    return {
        name: [await loss(replicas, ask_more, everything=everything) for _ in range(kills)]
        for name, everything in which
    }


def rss_mib(pids: list[int]) -> list[int]:
    """Resident memory of processes, shared pages in each."""
    return [int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") >> 20 for pid in pids]


async def begun(folder: str) -> Replicas:
    """Replicas that are ready."""
    replicas = Replicas(folder)
    await replicas.start()
    while not replicas.lag().ready:  # noqa: ASYNC110 - another process sets it
        await asyncio.sleep(0.05)
    return replicas


def requests(first: int, count: int) -> list[bytes]:
    """Records of the workload, with ids of their own."""
    lines = TxWorkload(rate_per_s=2_000, seed=7).lines(first, count).splitlines()
    return [line.replace(b'"transaction_id":"', b'"transaction_id":"api-', 1) for line in lines]


async def measure(folder: str, pipe: Connection, rate: int, seconds: float, kills: int, first: int) -> dict[str, Any]:
    """Ask at ``rate``, whether or not answers come; ``first``: the number of the first record in its workload."""
    replicas = await begun(folder)
    try:
        took: list[float] = []
        missed, at = Counter[str](), 0

        async def ask(number: int, raw: bytes, due_s: float) -> bool:
            nonlocal at
            record = SubmittedRecord(number, STREAM, str(number), raw, "", time.time_ns() // 1_000_000)
            pipe.send_bytes(raw + b"\n")
            place, at = LogPosition("f", at), at + len(raw) + 1
            judging = asyncio.ensure_future(replicas.judge([record]))
            await asyncio.sleep(0)
            replicas.placed(number, place)
            try:
                (found,) = await judging
            except NotJudgedError as error:
                found = error
            judged = not isinstance(found, NotJudgedError)
            missed.update([] if judged else [re.sub(r"\d[\d,]*", "N", str(found))])
            took.append((time.perf_counter() - due_s) * 1e3)
            return judged

        total, lines = int(rate * seconds), requests(first, int(rate * seconds) + rate)
        more = iter(range(len(lines) + 1, 1 << 60))

        def ask_more() -> Awaitable[bool]:
            number = next(more)
            return ask(number, requests(first + number, 1)[0], time.perf_counter())

        tasks, start_s = list[asyncio.Task[bool]](), time.perf_counter()
        for number, raw in enumerate(lines):
            if number == rate:  # the first second is not counted
                took.clear()
                missed.clear()
                replicas.calls, replicas.spent_ms = 0, 0.0
                pids, spent_before = replicas.pids(), replicas.followers_ms()
                before = cpu_s(pids), time.process_time()
                begun_s = time.perf_counter()
            due_s = start_s + number / rate
            await asyncio.sleep(max(0.0, due_s - time.perf_counter()))
            tasks.append(asyncio.create_task(ask(number + 1, raw, due_s)))
        await asyncio.gather(*tasks)
        wall_s = time.perf_counter() - begun_s
        return {
            "rate": rate,
            **latency_row(took),
            "not_judged": dict(missed),
            "calls_per_s": replicas.calls / wall_s,
            "judge_ms_a_call": replicas.spent_ms / max(1, replicas.calls),
            "cpu_us_a_request_replica": (cpu_s(replicas.pids()) - before[0]) / total * 1e6,
            "cpu_us_a_request_asker": (time.process_time() - before[1]) / total * 1e6,
            "handovers": replicas.handovers,
            "follower_ms_a_s": a_second(spent_before, replicas.followers_ms(), wall_s),
            "rss_mib": rss_mib(replicas.pids()),
            **await losses(replicas, ask_more, kills),
        }
    finally:
        await replicas.close()


def main() -> None:
    """As in the docstring of the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rate", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--batch-ms", type=int, default=200)
    parser.add_argument("--others", type=int, default=2_000)
    parser.add_argument("--retained", type=int, default=0, help="records that the replica holds")
    parser.add_argument("--kills", type=int, default=0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        ours, theirs = multiprocessing.Pipe()
        context = multiprocessing.get_context("spawn")
        played = (folder, theirs, given.batch_ms, given.others, given.retained)
        pipeline = context.Process(target=play, args=played, daemon=True)
        pipeline.start()
        ours.recv()
        first = max(WARM, given.retained) * 10
        found = asyncio.run(measure(folder, ours, given.rate, given.seconds, given.kills, first))
        ours.send_bytes(b"")
        pipeline.join(10)
    load = ", ".join(f"{each:.1f}" for each in os.getloadavg())
    print(orjson.dumps({**found, "load": load}, option=orjson.OPT_INDENT_2).decode())


if __name__ == "__main__":
    main()
