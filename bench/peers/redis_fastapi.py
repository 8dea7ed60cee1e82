"""The same with Redis and FastAPI: a stream consumer keeps figures in Redis, a service reads them and decides.

Built as an expert of both would build it. The service (uvicorn, uvloop, httptools, orjson, a pool of connections) adds
the record to a stream and reads the figures of R5 in one round trip, by a script. It adds the record's own amount and
decides by the same policy. The consumer reads the stream in blocks and updates the windows, pipelined. A window is a
sorted set by event time and a running total, so it is exact to the millisecond, and a read costs only what has just
left it. There are two variants: ``stream`` (the consumer updates the figures, as feature stores do) and ``inline`` (the
request's own script updates them before it reads).

The stream is a Redis stream too: it passes records on sooner than a broker on this machine would, which favours this
system. Its log is synced once per second, not at each write.

``python -m bench.peers.redis_fastapi serve REDIS_PORT PORT stream|inline``; ``… consume REDIS_PORT``;
``… send REDIS_PORT RATE SECONDS``: records from elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
import time
from typing import Any

import orjson
import redis.asyncio
import uvicorn
import uvloop
from fastapi import FastAPI, Request, Response

from bench.peers.naive import RULES, decided, holds
from crossline.generate.tx import TxWorkload

HOST = "127.0.0.1"
STREAM, GROUP = "payments", "figures"
BLOCK_RECORDS, BLOCK_MS = 500, 50
POOL = 256  # more than there are requests at a time: none waits for a connection
SEND_EVERY_S = 0.01
# KEYS: windows; ARGV: event time, id, amount, then the length of each window. What is older than the window leaves.
UPDATE = """
for i, key in ipairs(KEYS) do
  local at, amount = tonumber(ARGV[1]), tonumber(ARGV[3])
  if redis.call('ZADD', key, at, ARGV[2] .. '|' .. ARGV[3]) == 1 then
    redis.call('INCRBY', key .. ':t', amount)
  end
  local gone = redis.call('ZRANGEBYSCORE', key, '-inf', at - tonumber(ARGV[3 + i]))
  if #gone > 0 then
    local sum = 0
    for _, each in ipairs(gone) do sum = sum + tonumber(string.match(each, '|(.*)')) end
    redis.call('ZREMRANGEBYSCORE', key, '-inf', at - tonumber(ARGV[3 + i]))
    redis.call('DECRBY', key .. ':t', sum)
  end
  redis.call('PEXPIRE', key, ARGV[3 + i] * 2)
  redis.call('PEXPIRE', key .. ':t', ARGV[3 + i] * 2)
end
"""
# KEYS as above; ARGV: event time, then the length of each window. Count and sum of (t - w, t], without changing them.
READ = """
local found = {}
for i, key in ipairs(KEYS) do
  local at = tonumber(ARGV[1])
  local sum = tonumber(redis.call('GET', key .. ':t') or '0')
  local count = redis.call('ZCARD', key)
  for _, edge in ipairs({{'-inf', at - tonumber(ARGV[1 + i])}, {'(' .. at, '+inf'}}) do
    for _, each in ipairs(redis.call('ZRANGEBYSCORE', key, edge[1], edge[2])) do
      sum = sum - tonumber(string.match(each, '|(.*)'))
      count = count - 1
    end
  end
  found[2 * i - 1] = count
  found[2 * i] = sum
end
return found
"""


def windows_of(record: dict[str, Any]) -> tuple[list[str], list[int], list[tuple[str, str]]]:
    """Keys of the windows that the record is in, their lengths, and the rule and aggregate of each."""
    keys, lengths, rules = [], [], []
    for rule, fields, window_ms, aggregate in RULES:
        if aggregate != "avg" or record["payment_type"] == "CSH":
            keys.append(f"{rule}:" + ":".join(record[field] for field in fields))
            lengths.append(window_ms)
            rules.append((rule, aggregate))
    return keys, lengths, rules


def decide(record: dict[str, Any], figures: list[int], rules: list[tuple[str, str]], *, counted: bool) -> str:
    """By the policy; ``counted``: the figures have the record in them."""
    hits = 0
    for number, (rule, aggregate) in enumerate(rules):
        count = figures[2 * number] + (not counted)
        total = figures[2 * number + 1] + (0 if counted else record["amount_cents"])
        hits += holds(rule, count if aggregate == "count" else total / count if aggregate == "avg" else total)
    return decided(hits)


def application(port: int, *, inline: bool) -> FastAPI:
    """The service."""
    app = FastAPI(openapi_url=None)
    store = redis.asyncio.Redis(host=HOST, port=port, max_connections=POOL)
    update, read = store.register_script(UPDATE), store.register_script(READ)

    @app.get("/readyz")
    async def ready() -> Response:
        await store.script_load(UPDATE)
        await store.script_load(READ)
        return Response("ready")

    @app.post("/v1/decisions/payments")
    async def decisions(request: Request) -> Response:
        raw = await request.body()
        record = orjson.loads(raw)
        keys, lengths, rules = windows_of(record)
        async with store.pipeline(transaction=False) as pipe:
            pipe.xadd(STREAM, {"r": raw}, maxlen=1_000_000, approximate=True)
            if inline:
                own = [record["event_time"], record["transaction_id"], record["amount_cents"], *lengths]
                pipe.evalsha(update.sha, len(keys), *keys, *own)
            pipe.evalsha(read.sha, len(keys), *keys, record["event_time"], *lengths)
            *_, figures = await pipe.execute()
        body = {"decision": decide(record, figures, rules, counted=inline), "answered": "peek"}
        return Response(orjson.dumps(body), media_type="application/json")

    return app


async def consume(port: int) -> None:
    """Update the windows by what comes."""
    store = redis.asyncio.Redis(host=HOST, port=port)
    sha = await store.script_load(UPDATE)
    last = b"0"
    while True:
        for _, entries in await store.xread({STREAM: last}, count=BLOCK_RECORDS, block=BLOCK_MS) or ():
            async with store.pipeline(transaction=False) as pipe:
                for last, fields in entries:  # noqa: B007 - where it goes on
                    record = orjson.loads(fields[b"r"])
                    keys, lengths, _ = windows_of(record)
                    own = [record["event_time"], record["transaction_id"], record["amount_cents"], *lengths]
                    pipe.evalsha(sha, len(keys), *keys, *own)
                await pipe.execute()


async def send(port: int, rate: int, seconds: float) -> None:
    """Put records of the workload into the stream, each when it is due, as many at a time as are."""
    store = redis.asyncio.Redis(host=HOST, port=port)
    began_s = time.time()
    load = TxWorkload(rate_per_s=rate, disorder_ms=0, base_ms=int(began_s * 1e3))
    lines = load.lines(0, int(rate * seconds)).splitlines()
    sent = 0
    while sent < len(lines):
        due = min(len(lines), int((time.time() - began_s) * rate))
        async with store.pipeline(transaction=False) as pipe:
            for line in lines[sent:due]:
                pipe.xadd(STREAM, {"r": line}, maxlen=1_000_000, approximate=True)
            await pipe.execute()
        sent = due
        await asyncio.sleep(SEND_EVERY_S)


def main() -> None:
    what, redis_port = sys.argv[1], int(sys.argv[2])
    if what == "send":
        uvloop.run(send(redis_port, int(sys.argv[3]), float(sys.argv[4])))
        return
    if what == "consume":
        uvloop.run(consume(redis_port))
        return
    app = application(redis_port, inline=sys.argv[4] == "inline")
    quiet: Any = {"access_log": False, "log_level": "error"}
    uvicorn.run(app, host=HOST, port=int(sys.argv[3]), loop="uvloop", http="httptools", **quiet)


if __name__ == "__main__":
    main()
