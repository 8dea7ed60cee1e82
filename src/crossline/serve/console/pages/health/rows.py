"""Rows of the page from the API's data of a rule."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from crossline.analysis.health.predictions import PredictionCheck
from crossline.serve.console.api_calls import segment
from crossline.serve.console.layout.numbers import DASH, counted, number
from crossline.serve.console.pages.health.context import HealthRow, HeldRow, MetRow, Remark
from crossline.serve.health.sentences import NAMES, figure_text, percent, prediction_text

_CRIT = frozenset({"floods", "silent", "alerts", "money", "precision"})
_HIGH = frozenset({"parity"})
_MET_MIN = 0.05


def row_of(body: Mapping[str, Any], span: str) -> HealthRow:
    """A rule. ``span``: ``24h``, ``7d`` or ``28d``, of its sparkline."""
    alerts, precision, wrong = body["alerts"], body["precision"], body["wrong"]
    values = alerts["by_hour"] if span == "24h" else alerts["by_day"][-8:] if span == "7d" else alerts["by_day"]
    due = None if span == "24h" else body["due"]
    most = max(1.0, *values, due["high"] if due else 0)
    week = alerts["by_day"][-7:]
    corrected = precision["corrected"]
    return HealthRow(
        rule_id=body["rule_id"],
        address=f"/rules/{segment(body['rule_id'])}",
        version=body["version"],
        status=body["status"],
        owner=body["owner"],
        points=tuple(round(each / most, 3) for each in values),
        band=(round(due["low"] / most, 3), round(due["high"] / most, 3)) if due else None,
        bad=bool({"floods", "silent"} & {*wrong}),
        caption=_spark(body, span, due),
        last_24h=number(alerts["last_24h"]),
        a_day=number(round(sum(week) / len(week), 1)),
        due=_range(body["due"]),
        due_text=_due(body["due"]),
        precision=_share(precision["value"]),
        interval=_interval(precision) if precision["value"] is not None else "too few labels",
        corrected=_share(corrected["value"]) if corrected["value"] is not None else "",
        precision_text=_precision(precision),
        false_positives=number(precision["labels"] - precision["true"]),
        cost=DASH if body["cost"] is None else f"{body['cost']['us_per_record']:.2g}",
        cost_text=_cost(body["cost"]),
        parity=DASH if body["parity"] is None else body["parity_text"],
        parity_grade="high" if "parity" in wrong else "",
        remarks=tuple(
            Remark(each["text"], "crit" if each["what"] in _CRIT else "high" if each["what"] in _HIGH else "")
            for each in body["notes"]
        ),
    )


def held_rows(body: Mapping[str, Any]) -> Iterator[HeldRow]:
    """What was foretold of a rule, each figure beside what came."""
    for each in body["kept"]:
        held = PredictionCheck(**each)
        of = "label" if held.figure == "precision" else "whole day"
        low, high = (figure_text(one, held.figure) for one in (held.low, held.high))
        yield HeldRow(
            rule_id=body["rule_id"],
            address=f"/rules/{segment(body['rule_id'])}",
            what=NAMES[held.figure],
            predicted=f"{figure_text(held.predicted, held.figure)}, {low} to {high}",
            came=_observed_text(held),
            of=counted(held.of, of),
            beyond=held.beyond,
        )


def _observed_text(held: PredictionCheck) -> str:
    if held.came is not None:
        return figure_text(held.came, held.figure)
    return "too few labels" if held.figure == "precision" else "no whole day yet"


def met_rows(body: Mapping[str, Any]) -> Iterator[MetRow]:
    """The rules that a rule meets; first itself, where its own cooldown holds back what it would have raised."""
    mine = {"rule_id": body["rule_id"], "address": f"/rules/{segment(body['rule_id'])}"}
    if body["held_back_share"] >= _MET_MIN:
        own = {"records": DASH, "entities": DASH, "led": DASH, "cooled": percent(body["held_back_share"])}
        yield MetRow(**mine, other="itself", other_address=mine["address"], **own)
    for each in body["met"]:
        if max(each["records"], each["entities"], each["led"], each["cooled"]) >= _MET_MIN:
            yield MetRow(
                **mine,
                other=each["rule_id"],
                other_address=f"/rules/{segment(each['rule_id'])}",
                records=percent(each["records"]),
                entities=percent(each["entities"]),
                led=percent(each["led"]),
                cooled=percent(each["cooled"]),
            )


def figure_sentences(body: Mapping[str, Any]) -> tuple[str, ...]:
    """Each figure in a sentence."""
    return tuple(prediction_text(PredictionCheck(**each)) for each in body["kept"])


def _spark(body: Mapping[str, Any], span: str, due: Mapping[str, Any] | None) -> str:
    alerts = body["alerts"]
    if span == "24h":
        return f"Alerts an hour over 24 hours, {alerts['last_24h']:,} in all"
    held = "" if due is None else f", {_due(due)} {_range(due)}"
    return f"Alerts a day over {counted(len(alerts['by_day']), 'day')}, {alerts['by_day'][-1]:,} today{held}"


def _range(due: Mapping[str, Any] | None) -> str:
    return DASH if due is None else f"{number(round(due['low'], 1))} to {number(round(due['high'], 1))}"


def _due(due: Mapping[str, Any] | None) -> str:
    if due is None:
        return "neither a backtest nor a past of two weeks foretells anything"
    return "predicted by the backtest" if due["by"] == "backtest" else "usual by its own past"


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _interval(precision: Mapping[str, Any]) -> str:
    return f"{precision['low']:.2f} to {precision['high']:.2f}"


def _precision(precision: Mapping[str, Any]) -> str:
    corrected = precision["corrected"]
    text = f"{precision['true']:,} of {counted(precision['labels'], 'labelled alert')} on frauds"
    if corrected["value"] is None:
        return text
    left = f"; alerts of the last {counted(corrected['left_out_days'], 'day')} left out" * bool(
        corrected["left_out_days"]
    )
    come = f"{number(round(corrected['labels_to_come']))} labels to come"
    return f"{text}; with {come}: {corrected['value']:.2f}, {_interval(corrected)}{left}"


def _cost(cost: Mapping[str, Any] | None) -> str:
    if cost is None:
        return "not among the costliest rules of the last batches, or there are none in the store"
    return f"{percent(cost['share'])} of judging, batches from {cost['since'][:19]} to {cost['until'][:19]} UTC"
