"""Objectives: what a pipeline and its API promise, and how often they may fail to keep it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic import Field

from crossline.basics.streams.schema import StreamSpec
from crossline.basics.texts.problems import Finding
from crossline.settings.fields import DurationMs, Settings
from crossline.settings.kafka import KafkaSourceSettings
from crossline.settings.process.serve import ServeSettings

SAMPLE_MS = 1_000  # how often lag is looked at
_OF_RUN = ("alert_latency", "lag")
_OF_API = ("decision_latency", "availability")


class LatencyObjective(Settings):
    """So many of a hundred take at most this long."""

    under: DurationMs = Field(ge=1, description="The time that is kept where it takes no longer.")
    percentile: float = Field(default=99.0, gt=0, lt=100, description="How many of 100 keep it, at least.")


class LagObjective(Settings):
    """For so much of the time no record that waits is older than this."""

    under: DurationMs = Field(
        ge=2 * SAMPLE_MS, description="The greatest age, by the broker's clock; it is looked at each second."
    )
    percent: float = Field(default=99.9, gt=0, lt=100, description="Of how much of the time, at least, in percent.")


class CheckpointObjective(Settings):
    """In so many minutes batches spend no more of their time on the checkpoint than this."""

    share: float = Field(
        default=10.0, gt=0, lt=100, description="The greatest share of a minute's batches, in percent."
    )
    percent: float = Field(default=99.0, gt=0, lt=100, description="Of how many minutes, at least, in percent.")


class AvailabilityObjective(Settings):
    """So many of the API's requests are answered without a fault of the server."""

    percent: float = Field(default=99.9, gt=0, lt=100, description="Of how many requests, at least, in percent.")


class SloSettings(Settings):
    """Objectives of the pipeline and of its API, each kept or not over 1 h, 24 h and 30 d. What is not named is none.

    `docs/objectives.md` defines the measurements, and the treatment of minutes without any.
    """

    path: str = Field(
        default="out/slo.db",
        min_length=1,
        description="File of the counts by minute, of 31 days; run and API write it, as one user of one machine.",
    )
    alert_latency: LatencyObjective | None = Field(
        default=None, description="From an alert's ingest time, by the broker's clock, until all sinks had it."
    )
    decision_latency: LatencyObjective | None = Field(
        default=None, description="From the head of a request for one decision until its answer began."
    )
    lag: LagObjective | None = Field(default=None, description="How old the oldest record is that waits to be judged.")
    checkpoint: CheckpointObjective | None = Field(
        default=None, description="What batches spend on noting state and progress."
    )
    availability: AvailabilityObjective | None = Field(
        default=None, description="Requests of the API that did not end with a status of 500 or more."
    )

    def findings(self) -> list[Finding]:
        """A section that promises nothing."""
        if any(getattr(self, name) is not None for name in (*_OF_RUN, "checkpoint", *_OF_API)):
            return []
        return [Finding((), "no objective", "at least one, such as lag: {under: 5s}")]


def broker_streams(sources: Mapping[str, object], streams: Mapping[str, StreamSpec]) -> list[str]:
    """The streams whose ingest time is a broker's clock: only for them the age of a record is known."""
    return [
        name
        for name, source in sources.items()
        if isinstance(source, KafkaSourceSettings) and name in streams and streams[name].ingest_time is None
    ]


def unmeasured(
    slo: SloSettings | None,
    serve: ServeSettings | None,
    sources: Mapping[str, object],
    streams: Mapping[str, StreamSpec],
) -> Iterator[Finding]:
    """Objectives that nothing of this pipeline would ever be measured by, at their places in the file."""
    if slo is None:
        return
    if not broker_streams(sources, streams):
        found, expected = (
            "no stream whose ingest time is a broker's clock",
            "a source of kind kafka without ingest_time",
        )
        yield from (Finding(("slo", name), found, expected) for name in _OF_RUN if getattr(slo, name) is not None)
    if serve is None:
        yield from (
            Finding(("slo", name), "no serve", "serve: {listen: 127.0.0.1:8080}, whose answers are measured")
            for name in _OF_API
            if getattr(slo, name) is not None
        )
