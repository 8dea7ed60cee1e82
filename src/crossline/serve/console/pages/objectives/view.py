"""``/objectives/{pipeline}``: whether promises are kept, and how much of their budgets is left."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crossline.basics.times import parse_instant_ms
from crossline.observe.objectives.budget import PAIRS
from crossline.observe.objectives.formatting import (
    NONE,
    budget_text,
    percent,
    percentile_text,
    unknown_text,
    value_text,
)
from crossline.serve.console.api_calls import called, segment
from crossline.serve.console.layout.shell import Crumb
from crossline.serve.console.pages.objectives.context import Burning, ObjectiveRow, ObjectivesPage, WindowCell
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, moved
from crossline.serve.http.problems import ProblemError, not_found

LITTLE = 0.25  # of a budget: less is worth a look
_WORDS = {True: "kept", False: "missed", None: "not known"}


def first(asked: PageRequest) -> Any:
    """The page of the one pipeline that is served here."""
    return moved(f"/objectives/{segment(asked.parts.deps.config.name)}")


async def view(asked: PageRequest) -> ObjectivesPage:
    """All objectives of the pipeline."""
    name = asked.parts.deps.config.name
    if asked.path["pipeline"] != name:
        raise not_found("pipeline of this name", f"this server has {name}")
    shell = asked.shell(f"Objectives of {name}", (Crumb("Objectives", "/objectives"), Crumb(name)))
    path = f"/health/{segment(name)}/pipeline"
    try:
        body = await called(asked, "GET", "/v1/objectives")
    except ProblemError as error:
        return ObjectivesPage(shell, None, (), (), error.detail, path)
    found = body["objectives"]
    return ObjectivesPage(
        shell=shell,
        as_of=asked.times.moment(parse_instant_ms(body["as_of"])),
        rows=tuple(map(_row, found)),
        burning=tuple(notice for each in found for notice in _burning(asked, each)),
        failed="",
        pipeline_path=path,
    )


def _row(objective: Mapping[str, Any]) -> ObjectiveRow:
    period = objective["windows"]["30d"]
    left = period["budget_left"]
    kind = "ok" if left is None or left >= LITTLE else "wn"
    return ObjectiveRow(
        label=objective["label"],
        promise=objective["promise"],
        windows=tuple(_cell(objective, window) for window in objective["windows"].values()),
        left=budget_text(period),
        bar=0.0 if left is None else min(1.0, max(0.0, left)),
        bar_kind="over" if left is not None and left <= 0 else kind,
        unknown=unknown_text(period),
    )


def _cell(objective: Mapping[str, Any], window: Mapping[str, Any]) -> WindowCell:
    unit, value = objective["unit"], value_text(objective, window)
    share = NONE if window["share"] is None else percent(window["share"])
    if window["share"] is None and window["known_minutes"]:
        share = f"no {unit}"
    known, minutes = window["known_minutes"], window["known_minutes"] + window["unknown_minutes"]
    full = f"{window['good']:,} of {window['total']:,} {unit}; {known:,} of {minutes:,} minutes are known"
    if value:
        full = f"{percentile_text(objective)} is {value}, to 2 %; {full}"
    return WindowCell(value, share, _WORDS[window["kept"]], full)


def _burning(asked: PageRequest, objective: Mapping[str, Any]) -> Iterator[Burning]:
    """The worst pace of an objective, and when its budget is gone by it."""
    end = ""
    if objective["used_up_at"] is not None:
        moment = asked.times.moment(parse_instant_ms(objective["used_up_at"]))
        end = f" At the pace of the last 24 h it is used up on {moment.text}."
    if objective["burning"]:
        worst = objective["burning"][0]
        fast = f"{worst['long_burn_rate']:.3g} times as fast as it may, over {worst['long']} and {worst['short']}"
        more = f"{len(objective['burning'])} of {len(PAIRS)} pairs of windows say so"
        kind = "err" if worst["severity"] == "critical" else "warn"
        yield Burning(kind, objective["label"], f"its budget burns {fast}; {more}.{end}")
    elif end:
        yield Burning("warn", objective["label"], f"its budget lasts less than 30 days.{end}")


PAGE = Page(
    "objectives",
    (PageRoute("GET", "/objectives", first), PageRoute("GET", "/objectives/{pipeline}", view)),
    label="Objectives",
    group="Operations",
)
