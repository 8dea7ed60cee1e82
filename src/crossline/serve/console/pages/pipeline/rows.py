"""Rows of the page of a pipeline's health, from the API's answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crossline.basics.times import rounded_duration
from crossline.observe.run_health.formatting import limit_text, value_text
from crossline.serve.console.layout.numbers import DASH, counted
from crossline.serve.console.pages.pipeline.context import DeadRow, PipelineFact, ReplicaRow, SinkRow
from crossline.serve.console.request import PageRequest

_PHASES = {
    "plan": "Plan",
    "tasks": "Tasks",
    "collect": "Collect",
    "deliver": "Deliver to sinks",
    "mark": "Mark, in the checkpoint",
}
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def sink_row(sink: Mapping[str, Any]) -> SinkRow:
    """A sink, which batches wait for or which gets them later."""
    behind_ms, backlog = sink["behind_ms"], sink["backlog_batches"]
    behind = rounded_duration(behind_ms) if behind_ms else "0 s"
    if backlog:
        behind += f", {counted(backlog, 'batch', 'batches')}"
    return SinkRow(
        name=sink["name"],
        state="behind" if behind_ms else "writing",
        behind=behind,
        against=limit_text(sink["limit_ms"], "alert", "ms") + ("" if backlog is None else "; no batch waits for it"),
        crossed=sink["crossed"],
        took=DASH if sink["delivery_ms"] is None else rounded_duration(sink["delivery_ms"]),
        retries=f"{sink['retries']:,}",
    )


def replica_row(replica: Mapping[str, Any]) -> ReplicaRow:
    """A replica of the state."""
    return ReplicaRow(
        number=replica["number"] + 1,
        behind="has no state yet"
        if replica["ms"] is None
        else rounded_duration(replica["ms"])
        if replica["ms"]
        else "0 s",
        against=limit_text(replica["limit_ms"], "setting", "ms"),
        batch=DASH if replica["batch"] is None else f"{replica['batch']:,}",
        crossed=replica["crossed"],
    )


def dead_row(reason: Mapping[str, Any]) -> DeadRow:
    """A reason for dead letters."""
    return DeadRow(reason["stream"], reason["reason"], f"{reason['count']:,}")


def facts_of(
    asked: PageRequest, health: Mapping[str, Any], figures: Mapping[str, Mapping[str, Any]]
) -> Iterator[PipelineFact]:
    """Batches, phases, the checkpoint, and what waits."""
    share = figures.get("checkpoint_share")
    if share is not None:
        against = limit_text(share["limit"], share["source"], "share")
        yesterday = "" if share["yesterday"] is None else f"{value_text(share['yesterday'], 'share')} yesterday"
        value = "unknown" if share["value"] is None else value_text(share["value"], "share")
        compared = ", ".join(each for each in (against, yesterday) if each)
        yield PipelineFact(f"{share['label']}, {share['over']}", value, compared, bool(share["crossed"]))
    run = health.get("run")
    if run is None:
        return
    now_ms = asked.times.now_ms
    running = rounded_duration(run["running_ms"]) if run["running_ms"] else "none"
    yield PipelineFact(
        "Batch that runs", running, limit_text(run["running_limit_ms"], "alert", "ms"), run["running_crossed"]
    )
    yield PipelineFact("Batches of this run", f"{run['batches']:,}", _ago("last one", run["last_ms"], now_ms))
    whole_ms = sum(run["phases_ms"].values())
    for name, ms in run["phases_ms"].items():
        part = f"{value_text(ms / whole_ms, 'share')} of a batch" if whole_ms else ""
        yield PipelineFact(f"{_PHASES.get(name, name)}, on average", rounded_duration(ms), part)
    state = "unknown" if run["state_written_ms"] is None else _bytes(run["state_bytes"])
    yield PipelineFact("State on the disk", state, _ago("written", run["state_written_ms"], now_ms))
    for stream, waits in run["waiting"].items():
        amount = f"{waits['amount']:,} records" if waits["unit"] == "records" else _bytes(waits["amount"])
        yield PipelineFact(f"Waits in {stream}", amount, "behind the last batch")


def _ago(what: str, at_ms: int | None, now_ms: int) -> str:
    return "" if at_ms is None else f"{what} {rounded_duration(max(0, now_ms - at_ms))} ago"


def _bytes(count: int) -> str:
    for size, name in _UNITS:
        if count >= size:
            return f"{count / size:.3g} {name}"
    return f"{count} bytes"
