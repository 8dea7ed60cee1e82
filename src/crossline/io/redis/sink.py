"""The Redis sink: alerts, the status of entities, decisions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import orjson
import redis
from redis import exceptions as errors
from redis.backoff import NoBackoff
from redis.retry import Retry

from crossline.basics.errors import PermanentError, SinkError
from crossline.basics.times import format_instant
from crossline.evaluate.alerts.alert_json import json_bytes
from crossline.evaluate.alerts.current_alerts import RETRACTED
from crossline.evaluate.decisions.columns import DecisionColumns
from crossline.io.redis.connections import BoundedConnection, BoundedTlsConnection
from crossline.io.redis.decision_writes import DecisionWrites
from crossline.io.redis.keys import RANKS, entity, part, plain
from crossline.io.redis.scripts import WRITE_ALERT, WRITE_DUE, WRITE_REVISED
from crossline.io.sinks.base import Delivery, for_delivery, wall_clock_ms
from crossline.io.sinks.decisions import columns_of
from crossline.settings.redis import RedisSettings

CHUNK = 500  # alerts asked for together
CALLS_EACH = 500  # sent together, since each may look through all alerts of an entity; their answer has TIMEOUT_S
BYTES_EACH = 1 << 20  # of calls sent together
DUE_MAX = 10_000  # entities whose graver action has ended, looked at with one delivery
TIMEOUT_S = 5.0
# What a server answers that will pass: it is full, a replica, without its replicas, and lost its scripts just now.
_PASSES = (
    errors.OutOfMemoryError,
    errors.ReadOnlyError,
    errors.TryAgainError,
    errors.ClusterDownError,
    errors.NoScriptError,
)
_WORDS = ("maxmemory", "BUSY", "MASTERDOWN", "NOREPLICAS", "MISCONF")
_NOT_LET_IN = (errors.AuthenticationError, errors.AuthorizationError, errors.NoPermissionError)

Call = tuple[str, Sequence[str | bytes], Sequence[str | bytes | int]]


class RedisSink:
    """Adds each alert once, updates the status of its entity, and keeps the last decision on each record.

    Guarantee: an alert is in the stream once, and moves its entity's status once, over kills and redeliveries, for as
    long as its id is known (``known``) and the server keeps its data: each is one script, done whole or not at all. A
    server that loses data in a crash loses the deliveries since its last write to disk.

    An alert's status is the decision on its record, where there is one, and else its action. An entity's is the gravest
    among its alerts that are in force, each for ``in_force`` from its delivery by the server's clock; a correction
    takes its alert out, or changes it, and a revision changes the status of those that it is about. Shadow alerts move
    nothing. Where a graver status ends, a lesser one that lasts longer is set with the next delivery.
    """

    def __init__(self, settings: RedisSettings, pipeline: str, *, clock_ms: Callable[[], int] = wall_clock_ms) -> None:
        self._settings = settings
        self._prefix = settings.prefix or f"crossline:{part(pipeline)}"
        self._clock_ms = clock_ms
        self._client: redis.Redis | None = None
        self._decisions = DecisionWrites(_seconds(settings.known))
        self._where = f"Redis at {settings.host}:{settings.port}"

    @classmethod
    def from_settings(cls, settings: RedisSettings, pipeline: str) -> Self:
        """The sink that ``settings`` describe."""
        return cls(settings, pipeline)

    def open(self) -> None:
        """Make the client, which connects at the first delivery. Raises PermanentError without its password."""
        self._client = client_of(self._settings, os.environ)

    def deliver(self, delivery: Delivery) -> None:
        """Send what Redis does not have yet. Raises SinkError where the server is unreachable."""
        if self._client is None:
            raise PermanentError("the sink is not open")
        try:
            decisions = columns_of(delivery.decisions)
            entities = self._entities(self._client, delivery, decisions)
            _send(self._client, self._alerts(delivery, decisions))
            self._decisions.write(self._client, self._decision_keys(decisions), decisions.lines)
            _send(self._client, self._revisions(decisions, entities))
        except _NOT_LET_IN as error:
            raise PermanentError(f"{self._where} refuses the user: {error}; see username and password") from None
        except (redis.ConnectionError, redis.TimeoutError, OSError) as error:
            raise SinkError(f"{self._where} cannot be reached: {error}") from error
        except redis.ResponseError as error:
            raise self._error_of(error) from error
        except redis.RedisError as error:
            raise PermanentError(f"{self._where} answers as no Redis does: {error}") from error

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _error_of(self, error: redis.ResponseError) -> SinkError | PermanentError:
        if isinstance(error, _PASSES) or any(word in str(error) for word in _WORDS):
            return SinkError(f"{self._where} takes nothing now: {error}")
        return PermanentError(f"{self._where} refuses a command under {self._prefix}: {error}")

    def _entities(self, client: redis.Redis, delivery: Delivery, decisions: DecisionColumns) -> dict[str, str]:
        """By id of an alert, its entity: of the alerts that revised decisions rest on, as far as they are known."""
        found = {str(each["alert_id"]): entity(each["key"]) for each in delivery.alerts}
        revised = [decision for decision in decisions.values.values() if decision["revision"]]
        missing = sorted({each for decision in revised for each in _rests_on(decision)} - found.keys())
        for at in range(0, len(missing), CHUNK):
            mine = missing[at : at + CHUNK]
            values: Any = client.mget([self._key("alert", each) for each in mine])
            found |= {each: entity(orjson.loads(raw)["key"]) for each, raw in zip(mine, values, strict=True) if raw}
        return found

    def _alerts(self, delivery: Delivery, decisions: DecisionColumns) -> Iterator[Call]:
        starts: list[str | bytes | int] = [self._key("entity", ""), self._key("standing", ""), DUE_MAX]
        yield WRITE_DUE, [self._key("due")], starts
        now = format_instant(self._clock_ms())
        last: dict[tuple[Any, ...], Mapping[str, Any]] = {}
        for each in sorted(decisions.values.values(), key=lambda each: int(each["revision"])):
            for alert_id in _rests_on(each):
                last[each["stream"], each["record_id"], alert_id] = each
        for alert in for_delivery(delivery):
            about = alert["stream"], alert["record_id"], alert["corrects"] or alert["alert_id"]
            yield self._alert({**alert, "delivered_at": now}, last.get(about))

    def _revisions(self, decisions: DecisionColumns, entities: Mapping[str, str]) -> Iterator[Call]:
        for decision in decisions.values.values():
            for alert_id in _rests_on(decision) if decision["revision"] else ():
                if entities.get(alert_id):
                    yield self._revision(decision, alert_id, entities[alert_id])

    def _revision(self, decision: Mapping[str, Any], alert_id: str, key: str) -> Call:
        keys: list[str | bytes] = [self._key("entity", key), self._key("standing", key), self._key("due")]
        return WRITE_REVISED, keys, [key, alert_id, *_status(decision)]

    def _alert(self, alert: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Call:
        settings, key = self._settings, entity(alert["key"])
        keys: list[str | bytes] = [
            self._key("alert", alert["alert_id"]),
            self._key("alerts"),
            self._key("entity", key),
            self._key("standing", key),
            self._key("figure", part(alert["rule_id"]), key),
            self._key("due"),
        ]
        gone = alert.get("outcome") == RETRACTED
        done = "none" if not key else "gone" if gone else "stands"
        plain = (RANKS.get(alert["action"], 0), alert["score"], part(alert["action"]), "-", 0, 0)
        rank, score, status, which, policy, revision = plain if decision is None else _status(decision)
        arguments: list[str | bytes | int] = [
            json_bytes(alert),
            _seconds(settings.known),
            settings.stream_max,
            alert["alert_id"],
            key,
            done,
            rank,
            score,
            part(alert["action"]),
            part(alert["rule_id"]),
            alert["rule_version"],
            alert["corrects"] or alert["alert_id"],
            settings.in_force,
            b"" if gone or alert["value"] is None else _figure(alert),
            *(status, which, policy, revision),
        ]
        return WRITE_ALERT, keys, arguments

    def _decision_keys(self, decisions: DecisionColumns) -> list[bytes]:
        starts = [self._key("decision", part(head.stream), "").encode() for head in decisions.heads]
        heads, names = decisions.head.tolist(), decisions.record_ids
        if not plain(b"".join(names)):
            names = [part(name.decode(errors="surrogatepass")).encode() for name in names]
        return [starts[head] + name for head, name in zip(heads, names, strict=True)]

    def _key(self, *parts: str) -> str:
        return ":".join((self._prefix, *parts))


def _send(client: redis.Redis, calls: Iterable[Call]) -> None:
    """Have the scripts run in their order."""
    scripts = {text: client.register_script(text) for text in (WRITE_DUE, WRITE_ALERT, WRITE_REVISED)}
    for chunk in _chunks(calls):
        pipe = client.pipeline(transaction=False)
        for text, keys, arguments in chunk:
            scripts[text](keys=keys, args=arguments, client=pipe)
        pipe.execute()


def _chunks(calls: Iterable[Call]) -> Iterator[list[Call]]:
    """The calls in their order, in pieces of at most CALLS_EACH calls with BYTES_EACH together, or of one call."""
    chunk: list[Call] = []
    size = 0
    for call in calls:
        mine = sum(len(each) for each in call[2] if isinstance(each, str | bytes))
        if chunk and (len(chunk) == CALLS_EACH or size + mine > BYTES_EACH):
            yield chunk
            chunk, size = [], 0
        chunk.append(call)
        size += mine
    if chunk:
        yield chunk


def client_of(settings: RedisSettings, environment: Mapping[str, str]) -> redis.Redis:
    """A client, which connects when it is used. Raises PermanentError where its password is not to be had."""
    tls: dict[str, Any] = {"ssl_ca_certs": settings.ca_file} if settings.tls else {}
    pool = redis.ConnectionPool(
        connection_class=BoundedTlsConnection if settings.tls else BoundedConnection,
        answer_s_max=TIMEOUT_S,
        host=settings.host,
        port=settings.port,
        db=settings.db,
        username=settings.username,
        password=settings.password(environment, lambda path: Path(path).read_text(encoding="utf-8")),
        socket_timeout=TIMEOUT_S,
        socket_connect_timeout=TIMEOUT_S,
        retry=Retry(NoBackoff(), 0),  # the whole batch is retried, and logged
        client_name="crossline",
        **tls,
    )
    return redis.Redis.from_pool(pool)


def _status(decision: Mapping[str, Any]) -> tuple[int, int, str, str, int, int]:
    """Rank, score, status, and which decision it is."""
    text = str(decision["decision"])
    which = (part(str(decision["decision_id"])), decision["policy_version"], decision["revision"])
    return RANKS.get(text, 0), decision.get("score", 0), part(text), *which


def _rests_on(decision: Mapping[str, Any]) -> list[str]:
    """The alerts on its record that a decision rests on: not those that hold it, or stand since before."""
    reasons = decision.get("reasons") or ()
    return [each["alert_id"] for each in reasons if not each.get("held_by") and not each.get("standing")]


def _figure(alert: Mapping[str, Any]) -> bytes:
    names = ("value", "operator", "threshold", "window_start", "window_end", "event_time")
    figure = {name: alert.get(name) for name in names}
    return json_bytes({**figure, "alert_id": alert["corrects"] or alert["alert_id"]})


def _seconds(ms: int) -> int:
    return max(1, -(-ms // 1_000))
