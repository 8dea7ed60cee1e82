"""``/health/{pipeline}``: is anything wrong with a rule? The figures are those of ``GET /v1/health/rules``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from crossline.basics.texts.problems import one_of, shown
from crossline.basics.times import parse_instant_ms
from crossline.serve.console.access import NEEDS
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.health.context import HealthPage, HealthTab
from crossline.serve.console.pages.health.rows import held_rows, met_rows, row_of
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, moved
from crossline.serve.http.problems import ProblemError, invalid, not_found

SPANS = {"24h": "24 h", "7d": "7 d", "28d": "28 d"}
# Parts of health, where this server has them.
_TABS = {
    "Rules": "/health/{pipeline}",
    "Pipeline": "/health/{pipeline}/pipeline",
    "Objectives": "/objectives/{pipeline}",
}


async def first(asked: PageRequest) -> Any:
    """This server has one pipeline."""
    return moved(f"/health/{segment(asked.parts.deps.config.name)}")


async def view(asked: PageRequest) -> HealthPage:
    """The rules of the pipeline."""
    pipeline, span = asked.parts.deps.config.name, asked.query.get("span", "28d")
    if asked.path["pipeline"] != pipeline:
        raise not_found(f"pipeline {shown(asked.path['pipeline'])}", f"this server has {pipeline}")
    if span not in SPANS:
        raise invalid("?span", shown(span), one_of(SPANS))
    wrong, report = "", dict[str, Any]()
    try:
        report = await called(asked, "GET", "/v1/health/rules")
    except ProblemError as error:
        if error.status not in {409, 503}:
            raise
        wrong = str(error.to_json()["detail"])
    items = report.get("items", [])
    return HealthPage(
        shell=asked.shell(
            f"Health of {pipeline}",
            (Crumb("Health", "/health"), Crumb(pipeline)),
            scripts=("js/predictions.js",),
        ),
        pipeline=pipeline,
        as_of=asked.times.moment(parse_instant_ms(report["as_of"])) if report else None,
        tabs=tuple(tabs_of(pipeline, "Rules")),
        spans=tuple(HealthTab(caption, f"?span={name}", name == span) for name, caption in SPANS.items()),
        rows=tuple(row_of(each, span) for each in items),
        calls=len(report.get("calls", ())),
        calls_text=summary_text(items),
        held=tuple(row for each in items for row in held_rows(each)),
        met=tuple(row for each in items for row in met_rows(each)),
        counted=_counted(report),
        label_days=report.get("label_days", 0),
        lake_parity=_lake_parity(report.get("lake_parity"), items),
        refused=tuple((each["source"], each["detail"]) for each in report.get("refused", ())),
        wrong=wrong,
    )


def tabs_of(pipeline: str, current: str) -> list[HealthTab]:
    """The parts of health that this server has."""
    return [
        HealthTab(label, path.replace("{pipeline}", segment(pipeline)), label == current)
        for label, path in _TABS.items()
        if ("GET", path) in NEEDS
    ]


def summary_text(items: list[Mapping[str, Any]]) -> str:
    """``one floods, one is silent``."""
    words = {
        "floods": ("floods", "flood"),
        "silent": ("is silent", "are silent"),
        "parity": ("differs from the stream", "differ from the stream"),
        "alerts": ("is beyond its prediction", "are beyond their predictions"),
    }
    found: dict[str, int] = {}
    for each in items:
        if each["calls"]:
            why = next(one for one in each["wrong"] if one in {*words, "money", "precision"})
            kind = why if why in words else "alerts"
            found[kind] = found.get(kind, 0) + 1
    return ", ".join(f"{'one' if count == 1 else count} {words[kind][count != 1]}" for kind, count in found.items())


def _counted(report: Mapping[str, Any]) -> str:
    if not report or not report["counted"]:
        return "Alerts are not counted here."
    since = report["counted_since"]
    return "No alert was counted yet." if since is None else f"Counted since {since[:10]}."


def _lake_parity(head: Mapping[str, Any] | None, items: list[Mapping[str, Any]]) -> str:
    if head is None:
        return "Parity with a lake: no report; crossline lake parity writes one."
    found = [each["parity"]["lake"] for each in items if each["parity"] is not None and each["parity"]["lake"]]
    compared, differ, answered, other = (
        sum(each[name] for each in found) for name in ("compared", "differ", "answered", "answered_differ")
    )
    text = (
        f"{compared:,} alerts compared with a replay, {differ:,} differ; {answered:,} with receipts, {other:,} differ"
    )
    kinds = "; ".join(_of_kind(each) for each in head.get("decisions", ()))
    decisions = f" Decisions: {kinds}." if kinds else ""
    return f"Parity with the lake as of {head['at'][:19]} UTC: {text}.{decisions}"


def _of_kind(kind: Mapping[str, Any]) -> str:
    text = f"{kind['compared']:,} {kind['decision']}, {kind['differ']:,} differ"
    if not kind["answered"]:
        return text
    return f"{text}, {kind['answered']:,} with receipts, {kind['answered_differ']:,} differ"


PAGE = Page(
    "health",
    (PageRoute("GET", "/health", first), PageRoute("GET", "/health/{pipeline}", view)),
    label="Health",
    group="Operations",
    tab=True,
)
