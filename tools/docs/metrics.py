"""Writes the reference of metrics from the collectors themselves.

``python -m tools.docs.metrics``
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import SimpleNamespace
from typing import Any, cast

from prometheus_client.core import Metric

from crossline.observe.objectives.metrics import ObjectiveCollector
from crossline.observe.watch.disk_usage import DiskUsage
from crossline.observe.watch.exposition import RunCollector
from crossline.observe.watch.run_figures import RunFigures
from crossline.runtime.pipeline.pipeline_status import PipelineStatus, SourceBacklog
from crossline.serve.metrics.exposition import ApiCollector, ApiStatus
from crossline.serve.metrics.figures import ApiFigures
from crossline.serve.metrics.rules import RuleGauges
from crossline.serve.replica.answers import ReplicationLag
from tools.docs.markdown import code, table

_HEAD = """\
# Metrics

All families that `/metrics` shows, with their labels, as the code declares them. `process_…` besides are those of the
process that answers. What they are good for, and files for Prometheus and Grafana, stand in
[operations.md](operations.md#monitoring).
"""
_OF_RUN = "Set `watch.listen` in the pipeline file; `crossline run` answers there."
_OF_API = "Set `serve.metrics`; `crossline serve` and `crossline run --serve` answer there."
_OF_OBJECTIVES = "Both tell them, where the pipeline file has `slo`. See [objectives.md](objectives.md)."


def page() -> str:
    """The whole page."""
    parts = [_HEAD]
    for title, said, families in (
        ("Of a run", _OF_RUN, of_run()),
        ("Of an API", _OF_API, of_api()),
        ("Of objectives", _OF_OBJECTIVES, of_objectives()),
    ):
        parts += [f"## {title}\n", f"{said}\n", *table(("metric", "type", "labels", "meaning"), _rows(families))]
    return "\n".join(parts)


def of_run() -> Iterator[Metric]:
    """The families of a run without batches."""
    waiting = (SourceBacklog("records", "records", 0, None),)
    return RunCollector("any", RunFigures(), PipelineStatus, lambda: waiting, DiskUsage, lambda: True).collect()


def of_api() -> Iterator[Metric]:
    """The families of an API without requests."""
    standing = ApiStatus(ReplicationLag(0, -1, False), 0, 0, 0, (0, 0.0), 0)
    nothing = cast("Any", SimpleNamespace(rules=(), at_ms=0))
    return ApiCollector("any", ApiFigures(), lambda: standing, RuleGauges(lambda: nothing)).collect()


def of_objectives() -> Iterator[Metric]:
    """The families of objectives, without any objective."""
    recorder = cast("Any", SimpleNamespace(events={}, bad={}, objectives=(), file=None, now_ms=lambda: 0))
    return ObjectiveCollector("any", recorder).collect()


def _rows(families: Iterable[Metric]) -> Iterator[tuple[str, str, str, str]]:
    for each in families:
        name = f"{each.name}_total" if each.type == "counter" else each.name
        labels = " ".join(code(label) for label in cast("Any", each)._labelnames)  # noqa: SLF001 - public nowhere
        yield code(name), each.type, labels, each.documentation


if __name__ == "__main__":
    sys.stdout.write(page())
