"""Deliveries and sinks: the contract of a sink, its registry, and retries."""

from __future__ import annotations

import importlib
import random
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextvars import copy_context
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, Self, runtime_checkable

from pydantic import PlainValidator, TypeAdapter, ValidationError
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_attempt,
    stop_never,
)
from tenacity.stop import stop_base, stop_when_event_set

from crossline.basics.errors import RetryableError, UsageError
from crossline.basics.texts.problems import path_text
from crossline.basics.texts.validation import findings_from_validation
from crossline.io.sinks.delivery import Delivery as Delivery  # noqa: PLC0414 - whoever writes a sink finds it here
from crossline.io.sinks.delivery import LateRecord as LateRecord  # noqa: PLC0414 - as above
from crossline.logs import get_logger
from crossline.settings.fields import Settings, by_kind
from crossline.settings.sinks import SINKS

log = get_logger(__name__)

LOOK_S = 0.1  # between two looks at whether to stop, while several sinks are waited for
NAMED_MAX = 10  # alerts that a line of the log names
TURN_S = 0.1  # that a sink which works in this process has to itself


class Sink(Protocol):
    """A sink takes deliveries one at a time, in batch order, from any thread.

    Contract: ``deliver`` returns once the whole delivery is stored. It is idempotent: a delivery made twice, or
    interrupted and repeated by the next process, leaves the same result as one. Each sink's docstring states how, and
    the limits. Sinks recognise a repeated delivery by the ids of its alerts and records, not by its batch number:
    numbers restart with a new checkpoint, and batches may then be cut differently. ``deliver`` raises a RetryableError
    (usually SinkError) where a retry may help.
    """

    @classmethod
    def from_settings(cls, settings: Any, pipeline: str) -> Self:
        """The sink of ``pipeline`` for its item in ``sinks:``, not yet open."""
        ...

    def open(self) -> None:
        """Prepare the sink; called once, before the first delivery."""
        ...

    def deliver(self, delivery: Delivery) -> None:
        """Store ``delivery`` as a whole, or raise and be called again with it."""
        ...

    def close(self) -> None:
        """Release all resources; safe to call twice."""
        ...


@runtime_checkable
class CancellableSink(Protocol):
    """A sink whose ``open`` or ``deliver`` waits for another system: it raises SinkError once ``stop`` is set."""

    def use_cancel_token(self, stop: threading.Event) -> None:
        """Called before ``open``, and before ``deliver``."""
        ...


class SinkWatch(Protocol):
    """Observes deliveries. Called from the delivery threads, so it must return quickly.

    An asynchronous sink is reported twice: the ``OutboxSink`` once the batch is on disk, and later the sink in it.
    """

    def failed(self, sink: Sink, error: BaseException | None) -> None:
        """A delivery to ``sink`` failed, and is retried."""
        ...

    def on_delivered(self, sink: Sink, delivery: Delivery, spent_s: float) -> None:
        """``sink`` has the batch, ``spent_s`` after the first attempt."""
        ...


# Named, not imported: a pipeline without Kafka need not load a Kafka client.
_PLACES = {
    "sqlite": "crossline.io.sqlite.sink:SqliteSink",
    "jsonl": "crossline.io.sinks.jsonl:JsonlSink",
    "console": "crossline.io.sinks.console:ConsoleSink",
    "kafka": "crossline.io.kafka.sink:KafkaSink",
    "redis": "crossline.io.redis.sink:RedisSink",
    "webhook": "crossline.io.webhook.sink:WebhookSink",
    "postgres": "crossline.io.postgres.sink:PostgresSink",
}


def register_sink(kind: str, settings: type[Settings], place: str) -> None:
    """Make ``kind`` known in ``pipeline.yaml``: the model of its settings, and where its class is (``module:name``).

    Raises UsageError where another sink has the kind.
    """
    if (_PLACES.get(kind, place), SINKS.get(kind, settings)) != (place, settings):
        raise UsageError(f"sink kind {kind!r} is registered by {_PLACES[kind]}; choose another name")
    _PLACES[kind] = place
    SINKS[kind] = settings


def build_sink(settings: Settings | Mapping[str, Any], pipeline: str) -> Sink:
    """The sink of an item of ``sinks:``, not yet open. Relative paths start at the working directory.

    Raises UsageError with all that is wrong in it; an unknown kind is answered with the nearest one.
    """
    if isinstance(settings, Mapping):
        settings = _checked(settings)
    kind: str = settings.kind  # type: ignore[attr-defined]  # every model in SINKS has it
    place = _PLACES.get(kind) or str(getattr(settings, "SINK", ""))
    module, _, name = place.partition(":")
    try:
        sink: type[Sink] = getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        needs: str | None = getattr(settings, "NEEDS", None)
        if needs is None or (error.name or "").partition(".")[0] == "crossline":
            raise
        raise UsageError(
            f"a sink of kind {kind} needs {error.name}, which is not installed: pip install '{needs}'"
        ) from None
    return sink.from_settings(settings, pipeline)


def _checked(settings: Mapping[str, Any]) -> Settings:
    adapter: TypeAdapter[Settings] = TypeAdapter(Annotated[Settings, PlainValidator(by_kind(SINKS))])
    try:
        return adapter.validate_python(dict(settings))
    except ValidationError as error:
        findings = findings_from_validation(error, Settings)
        lines = [f"  {path_text(f.path)}: found {f.found}; expected {f.expected}" + _hint(f.hint) for f in findings]
        raise UsageError("\n".join(["a sink is described wrongly:", *lines])) from None


def _hint(hint: str | None) -> str:
    return f"; {hint}" if hint else ""


def wall_clock_ms() -> int:
    """Epoch milliseconds now: the instant of a delivery, which no rule reads."""
    return time.time_ns() // 1_000_000


def for_delivery(delivery: Delivery) -> list[Mapping[str, Any]]:
    """The alerts that sinks deliver: no shadow alerts, and none of rules that only feed other rules."""
    return [a for a in delivery.alerts if a["kind"] != "shadow" and a.get("emit_to_sink", True)]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long a batch is held: pauses double from ``initial_ms`` up to ``max_ms``, with jitter.

    ``attempts_max`` None is without end. ``grace_ms``: how long the other sinks may go on trying once one has failed
    for good, before the pipeline ends.
    """

    initial_ms: int = 200
    max_ms: int = 30_000
    attempts_max: int | None = None
    grace_ms: int = 5_000


def deliver_all(
    sinks: Sequence[Sink],
    delivery: Delivery,
    policy: RetryPolicy | None = None,
    stop: threading.Event | None = None,
    watch: SinkWatch | None = None,
) -> None:
    """Deliver to all sinks, and hold the batch until each of them has it.

    A slow, unreachable or broken sink delays the others by TURN_S at most. A sink that has the batch is not called
    again for it. Raises a sink's error where it is permanent, where ``attempts_max`` is used up, or where ``stop`` was
    set. The batch is then not done and must be delivered again. Every other sink was called at least once; after a
    permanent error or the last attempt it is retried for another ``grace_ms``. Its errors are logged. ``watch`` gets
    each failed attempt, and each sink that has the batch.
    """
    policy = policy or RetryPolicy()
    stop = stop or threading.Event()
    if len(sinks) == 1:
        _until_delivered(sinks[0], delivery, policy, stop, watch)
    elif sinks:
        _to_many(sinks, delivery, policy, stop, watch)


def _to_many(
    sinks: Sequence[Sink], delivery: Delivery, policy: RetryPolicy, stop: threading.Event, watch: SinkWatch | None
) -> None:
    ending = threading.Event()  # ``stop`` was set, or a sink has a permanent error: no more retries
    ends_s: float | None = None
    with ThreadPoolExecutor(len(sinks), "sink") as pool:
        calls: dict[int, Future[None]] = {}
        try:
            # Those that wait for others first. Those that work here have turns: at once they would only work slower.
            for number in sorted(range(len(sinks)), key=lambda n: not isinstance(sinks[n], CancellableSink)):
                call = calls[number] = pool.submit(
                    copy_context().run, _until_delivered, sinks[number], delivery, policy, ending, watch
                )
                if not isinstance(sinks[number], CancellableSink):
                    wait([call], TURN_S)
            waiting = set(calls.values())
            while waiting:
                done, waiting = wait(waiting, LOOK_S, FIRST_COMPLETED)
                if ends_s is None and any(call.exception() is not None for call in done):
                    ends_s = time.monotonic() + policy.grace_ms / 1000
                if stop.is_set() or (ends_s is not None and time.monotonic() >= ends_s):
                    ending.set()
        except BaseException:
            ending.set()
            raise
    failed = [(sinks[n], error) for n, call in sorted(calls.items()) if (error := call.exception()) is not None]
    if not failed:
        return
    failed.sort(key=lambda each: isinstance(each[1], RetryableError))  # what ends the pipeline is what is raised
    for sink, error in failed[1:]:
        log.error("another sink does not have the batch either", sink=type(sink).__name__, error=str(error))
    raise failed[0][1]


def _until_delivered(
    sink: Sink, delivery: Delivery, policy: RetryPolicy, stop: threading.Event, watch: SinkWatch | None
) -> None:
    begun_s = time.monotonic()
    if isinstance(sink, CancellableSink):
        sink.use_cancel_token(stop)
    bound: stop_base = stop_never if policy.attempts_max is None else stop_after_attempt(policy.attempts_max)
    Retrying(
        retry=retry_if_exception_type(RetryableError),
        wait=_Pause(policy),
        stop=bound | stop_when_event_set(stop),
        sleep=sleep_using_event(stop),
        before_sleep=_warn(sink, watch),
        reraise=True,
    )(sink.deliver, delivery)
    if watch is not None:
        watch.on_delivered(sink, delivery, time.monotonic() - begun_s)


class _Pause:
    """Seconds to wait: exponential with jitter, and no less than the sink requested."""

    def __init__(self, policy: RetryPolicy) -> None:
        self.policy = policy

    def __call__(self, state: RetryCallState) -> float:
        ceiling_ms = min(self.policy.max_ms, self.policy.initial_ms << min(state.attempt_number - 1, 30))
        # Half fixed, half drawn: many pipelines before one sink do not come back at the same instant.
        pause_ms = ceiling_ms * random.uniform(0.5, 1.0)  # noqa: S311 - no secret
        return max(pause_ms, _requested_ms(state)) / 1000


def _requested_ms(state: RetryCallState) -> int:
    error = state.outcome.exception() if state.outcome else None
    return (error.retry_after_ms or 0) if isinstance(error, RetryableError) else 0


def _warn(sink: Sink, watch: SinkWatch | None) -> Any:
    # The delivery comes with the state: what Retrying has is garbage in a circle, for which Python looks seldom.
    def warn(state: RetryCallState) -> None:
        delivery: Delivery = state.args[0]
        if watch is not None:
            watch.failed(sink, state.outcome.exception() if state.outcome else None)
        log.warning(
            "sink cannot take the batch; holding it",
            sink=type(sink).__name__,
            pipeline=delivery.pipeline,
            batch_id=delivery.batch_id,
            alerts=len(delivery.alerts),
            alert_ids=[alert["alert_id"] for alert in delivery.alerts[:NAMED_MAX]],
            attempt=state.attempt_number,
            retry_in_ms=round(state.upcoming_sleep * 1000),
            error=str(state.outcome.exception()) if state.outcome else None,
        )

    return warn
