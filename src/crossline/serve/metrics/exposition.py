"""The figures of an API process as Prometheus reads them, on a listener of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder

from crossline.basics.errors import UsageError
from crossline.logs import get_logger
from crossline.observe.watch.exposition import Collector, metric_counter, metric_gauge, metric_histogram, registry_of
from crossline.observe.watch.listener import HttpListener, HttpPage
from crossline.serve.metrics.figures import ApiFigures
from crossline.serve.metrics.rules import RuleGauges
from crossline.serve.replica.answers import ReplicationLag
from crossline.settings.process.serve import ServeSettings
from crossline.settings.watch import Address

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ApiStatus:
    """The state of an API process at a scrape.

    ``laid_over``: records of this API that replicas have on top of their batch. ``unsettled``: answers that no batch
    has covered yet. ``outbox``: None if its file cannot be read now. ``judged``: calls of replicas, and for how many
    seconds these judged. ``lost``: forks that ended or hung.
    """

    lag: ReplicationLag
    laid_over: int
    unsettled: int
    outbox: int | None
    judged: tuple[int, float]
    lost: int


class ApiCollector:
    """Makes metrics at each scrape. ``rules``: the health of rules, where that is known."""

    def __init__(
        self, pipeline: str, figures: ApiFigures, standing: Callable[[], ApiStatus], rules: RuleGauges | None = None
    ) -> None:
        self._pipeline = pipeline
        self._figures = figures
        self._standing = standing
        self._rules = rules

    def collect(self) -> Iterator[Metric]:
        """All families, also those that have no value yet."""
        of = self._figures
        yield metric_counter(
            "api_requests", "Requests by route and the answer's status.", ["method", "route", "status"],
            of.requests.copy(),
        )  # fmt: skip
        yield metric_histogram(
            "api_request_seconds", "From a request's head until its answer began.", ["route"], of.seconds.copy()
        )
        yield metric_counter(
            "api_decisions", "Records that were decided about, each once.", ["stream", "answered", "decision"],
            of.decisions.copy(),
        )  # fmt: skip
        yield metric_counter("api_degraded", "Parts that could not be judged.", ["part"], _or_zero(of.degraded))
        yield metric_counter(
            "api_revised", "Answers that the stream decided otherwise.", ["stream", "answered"], of.revised.copy()
        )
        yield metric_histogram("api_ledger_seconds", "How long requests waited for the ledger.", ["step"], of.ledger)
        yield from self._as_it_stands()
        if self._rules is not None:
            yield from self._rules.collect()

    def _as_it_stands(self) -> Iterator[Metric]:
        now = self._standing()
        single: Mapping[str, tuple[str, float | None]] = {
            "api_ready": ("1 where /readyz answers 200.", float(now.lag.ready)),
            "api_replica_behind_seconds": ("How old the oldest batch is that replicas lack.", now.lag.ms / 1_000),
            "api_replica_batch": ("The batch that is judged on; -1: none yet.", now.lag.batch),
            "api_laid_over_records": ("Records of this API that are laid over that batch.", now.laid_over),
            "api_unsettled_answers": ("Answers that no batch has covered yet.", now.unsettled),
            "api_outbox_records": ("Answered records that their stream has not stored yet.", now.outbox),
        }
        for name, (help_text, value) in single.items():
            yield metric_gauge(name, help_text, [], {} if value is None else {(): value})
        calls, seconds = now.judged
        yield metric_counter("api_judge_calls", "Calls of replicas, of one record or many.", [], {(): calls})
        yield metric_counter("api_judge_seconds", "Time that replicas judged.", [], {(): seconds})
        yield metric_counter("api_replicas_lost", "Forks of replicas that ended or hung.", [], {(): now.lost})
        build = {(self._pipeline, version("crossline")): 1.0}
        yield metric_gauge("api_build_info", "What serves.", ["pipeline", "version"], build)


def _or_zero(degraded: Mapping[str, int]) -> dict[str, int]:
    """That no replica was late is worth knowing: a rate begins from there."""
    return {"replica": 0, "stream": 0, **degraded}


def metrics_endpoint(settings: ServeSettings, *collectors: Collector) -> AbstractContextManager[Any]:
    """Listens at ``serve.metrics`` as long as the context is open; nowhere, where that is not set.

    Raises UsageError if the address is in use, or is none of this machine.
    """
    place = settings.metrics_place
    if place is None:
        return nullcontext()
    registry = registry_of(*collectors)

    def page(accepted: str) -> HttpPage:
        encode, form = choose_encoder(accepted)
        return HttpPage(encode(registry), form)

    listener = HttpListener(place, {"/metrics": page}, _refused)
    log.info("the API's figures are served", at=str(listener.place), page="/metrics")
    if not place.loopback:
        log.warning("other machines reach the API's figures, which have no authentication", at=str(place))
    return closing(listener)


def _refused(place: Address, reason: str) -> UsageError:
    return UsageError(
        f"serve: cannot listen at {place}: {reason}; end what listens there, or name another place "
        "(serve.metrics of the pipeline file)"
    )
