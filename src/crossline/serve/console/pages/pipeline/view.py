"""``/health/{pipeline}/pipeline``: whether anything is wrong with the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.basics.times import parse_instant_ms
from crossline.observe.run_health.formatting import limit_text, value_text
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.layout.moments import Moment
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.pages.pipeline.context import PipelinePage, Stat
from crossline.serve.console.pages.pipeline.rows import dead_row, facts_of, replica_row, sink_row
from crossline.serve.console.request import PageRequest
from crossline.serve.http.problems import ProblemError, not_found

STALE_MS = 180_000  # since the last minute that was written
UNKNOWN = "unknown"
SHOWN = ("lag", "alert_latency", "records_per_s", "batch", "late_share", "dead_letters")


async def view(asked: PageRequest) -> PipelinePage:
    """How the pipeline runs."""
    name = asked.parts.deps.config.name
    if asked.path["pipeline"] != name:
        raise not_found("pipeline of this name", f"this server has {name}")
    try:
        return _page(asked, name, await called(asked, "GET", "/v1/health/pipeline"))
    except ProblemError as error:
        return _page(asked, name, None, error.detail)


def _page(asked: PageRequest, name: str, body: Mapping[str, Any] | None, failed: str = "") -> PipelinePage:
    health = f"/health/{segment(name)}"
    crumbs = (Crumb("Health", health), Crumb(name))
    known: Mapping[str, Any] = body or {"state": UNKNOWN, "reasons": [], "figures": [], "minutes": {}}
    figures = {each["name"]: each for each in known["figures"]}
    last = known["minutes"].get("last")
    as_of_ms = parse_instant_ms(known["as_of"]) if body else 0
    stale = bool(last) and as_of_ms - parse_instant_ms(last) > STALE_MS
    return PipelinePage(
        shell=asked.shell(f"Pipeline {name}", crumbs),
        as_of=asked.times.moment(as_of_ms) if body else None,
        state=known["state"],
        reasons=tuple(known["reasons"]),
        began=_moment(asked, known.get("began")),
        stats=tuple(_stat(figures[each]) for each in SHOWN if each in figures),
        facts=tuple(facts_of(asked, known, figures)),
        sinks=tuple(map(sink_row, known.get("sinks") or ())),
        replicas=tuple(map(replica_row, known.get("replicas") or ())),
        dead=tuple(map(dead_row, known.get("dead_letters") or ())),
        runs=known.get("run") is not None,
        stale=_moment(asked, last) if stale else None,
        no_minutes=known["minutes"].get("why") or "",
        failed=failed,
        health_path=health,
        objectives_path=f"/objectives/{segment(name)}",
    )


def _moment(asked: PageRequest, instant: str | None) -> Moment | None:
    return None if instant is None else asked.times.moment(parse_instant_ms(instant))


def _stat(figure: Mapping[str, Any]) -> Stat:
    unit, value, yesterday = figure["unit"], figure["value"], figure["yesterday"]
    hours = [each for each in figure["hours"] if each is not None]
    most = max([*hours, 0.0])
    return Stat(
        label=figure["label"],
        value=UNKNOWN if value is None else value_text(value, unit),
        over=figure["over"],
        against=limit_text(figure["limit"], figure["source"], unit)
        or ("limit unknown" if figure["source"] else "no limit"),
        before=""
        if yesterday is None
        else f"{'at most ' if figure['peaks'] else ''}{value_text(yesterday, unit)} yesterday",
        crossed=bool(figure["crossed"]),
        points=tuple(each / most if most else 0.0 for each in hours) if len(hours) > 1 else (),
        caption=f"{figure['label']}, {len(hours)} of the last 24 hours: {'at most ' if figure['peaks'] else 'up to '}"
        f"{value_text(most, unit)}",
    )


PAGE = Page("pipeline", (PageRoute("GET", "/health/{pipeline}/pipeline", view),))
