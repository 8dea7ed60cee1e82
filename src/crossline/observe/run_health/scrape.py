"""Scrapes the metrics of a run at ``watch.listen``, as Prometheus does."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from prometheus_client.parser import text_string_to_metric_families

from crossline.basics.errors import RetryableError
from crossline.settings.watch import LOOPBACK, Address

WAIT_S = 2.0
BYTES_MAX = 16 << 20
_EVERYWHERE = {"0.0.0.0": LOOPBACK, "::": "::1"}  # noqa: S104 - where it listens so, it is asked on loopback
_direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Scrape:
    """What a run answered at ``at_ms``. ``samples``: values by name and labels. ``reasons``: why it lags."""

    at_ms: int
    samples: Mapping[str, Mapping[Labels, float]]
    ready: bool
    reasons: tuple[str, ...] = ()

    def one(self, name: str) -> float | None:
        """The value of a metric without labels; None where it has none now."""
        return self.samples.get(f"crossline_{name}", {}).get(())

    def total(self, name: str) -> float:
        """The sum over all labels."""
        return sum(self.samples.get(f"crossline_{name}", {}).values())

    def by(self, label: str, name: str) -> dict[str, float]:
        """Values by ``label``; those that differ in other labels are added up."""
        found: dict[str, float] = {}
        for labels, value in self.samples.get(f"crossline_{name}", {}).items():
            key = dict(labels).get(label, "")
            found[key] = found.get(key, 0.0) + value
        return found

    @property
    def began_ms(self) -> int | None:
        """When the process of the run was started."""
        started_s = self.samples.get("process_start_time_seconds", {}).get(())
        return None if started_s is None else round(started_s * 1000)

    @property
    def pipelines(self) -> frozenset[str]:
        """The pipelines that the run names."""
        return frozenset(dict(labels).get("pipeline", "") for labels in self.samples.get("crossline_build_info", {}))


def scrape(place: Address, pipeline: str, now_ms: int) -> Scrape:
    """The figures of the run of ``pipeline``. Waits for the network: for a thread.

    Raises RetryableError where no run answers at ``place``, or that of another pipeline.
    """
    where = str(Address(_EVERYWHERE.get(place.host, place.host), place.port))
    try:
        samples = _samples(_asked(f"http://{where}/metrics").decode())
        body: dict[str, Any] = orjson.loads(_asked(f"http://{where}/readyz"))
        found = Scrape(now_ms, samples, bool(body["ok"]), tuple(map(str, body["reasons"])))
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = getattr(error, "reason", None) or error
        why = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
        raise RetryableError(f"no run answers at {where} (watch.listen): {why}") from None
    if found.pipelines != {pipeline}:
        others = ", ".join(sorted(found.pipelines)) or "something that is no run"
        raise RetryableError(f"at {where} (watch.listen) answers {others}; expected the run of {pipeline}")
    return found


def _asked(address: str) -> bytes:
    """The body, also of an error response."""
    try:
        with _direct.open(address, timeout=WAIT_S) as answer:
            return bytes(answer.read(BYTES_MAX))
    except urllib.error.HTTPError as error:
        with error:
            return bytes(error.read(BYTES_MAX))


def _samples(text: str) -> dict[str, dict[Labels, float]]:
    found: dict[str, dict[Labels, float]] = {}
    for name, labels, value in _reasons_in(text):
        found.setdefault(name, {})[labels] = value
    return found


def _reasons_in(text: str) -> Iterator[tuple[str, Labels, float]]:
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            yield sample.name, tuple(sorted(sample.labels.items())), sample.value
