"""Records of several streams, judged in the order in which they are given: the alerts that come of them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.evaluate.detect import detect, new_state
from crossline.ingest.decode import decode_lines, make_layout
from crossline.plan.compose import compile_all
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet

START_MS = 1_767_225_600_000
STREAMS = load_streams(
    """\
schema_version: 1
streams:
  payments:
    id: id
    event_time: {field: at}
    ingest_time: {field: came}
    fields:
      id: string
      at: integer
      came: integer
      currency_pair: string?
      account: string?
      card: string?
      rate: number?
      amount: integer?
      country: string?
  fx_rates:
    id: id
    event_time: {field: at}
    ingest_time: {field: came}
    fields:
      id: string
      at: integer
      came: integer
      currency_pair: string?
      pair: string?
      rate: number?
      level: integer?
      type: string?
      real: boolean?
  logins:
    id: id
    event_time: {field: at}
    ingest_time: {field: came}
    fields: {id: string, at: integer, came: integer, account: string, ok: boolean, card: integer?}
  sessions:
    id: number
    event_time: {field: began, unit: iso8601}
    fields: {number: integer, began: timestamp, account: string, id: boolean?}
""",
    "stream.yaml",
)

Row = dict[str, Any]


def row(stream: str, name: str, second: float, came: float | None = None, **fields: Any) -> Row:
    """A record of ``stream`` that happened and came so many seconds after the start."""
    at, ingest = (START_MS + round(1000 * each) for each in (second, second if came is None else came))
    return {"stream": stream, "id": name, "at": at, "came": ingest, **fields}


def rate(name: str, second: float, value: float | None, came: float | None = None, **more: Any) -> Row:
    """A rate of EURUSD, unless ``more`` says another pair."""
    return row("fx_rates", name, second, came, **{"currency_pair": "EURUSD", "rate": value, **more})


def payment(name: str, second: float, value: float | None = None, came: float | None = None, **more: Any) -> Row:
    """A payment at a rate of EURUSD, unless ``more`` says another pair."""
    return row("payments", name, second, came, **{"currency_pair": "EURUSD", "rate": value, **more})


def loaded(bodies: Sequence[Mapping[str, Any]]) -> RuleSet:
    """The rules, as a log of them is read again."""
    given = [{"version": 1, **body} for body in bodies]
    rules = RuleSet.from_rules(item.rule for item in load_rules_text(json.dumps(given), "rules.yaml", STREAMS))
    return RuleSet.from_json(rules.to_json())


def alerts(bodies: Sequence[Mapping[str, Any]], rows: Sequence[Row], shards: int = 2) -> list[Row]:
    """Alerts of all rules over ``rows``; those of one stream that follow each other are one batch."""
    plans = list(compile_all(loaded(bodies), STREAMS, Defaults()).values())
    state, found = new_state(shards), []
    ends = dict.fromkeys(STREAMS, 0)
    for stream, group in itertools.groupby(rows, key=lambda each: each["stream"]):
        lines = [json.dumps({n: v for n, v in each.items() if n != "stream"}).encode() + b"\n" for each in group]
        chunk = b"".join(lines)
        decoded = decode_lines(make_layout(stream, STREAMS[stream]), chunk, f"{stream}.jsonl", ends[stream])
        assert not decoded.dead, decoded.dead
        ends[stream] += len(chunk)
        detection, state = detect(plans, state, decoded.records)
        found += detection.alerts
    return found


def refused(*bodies: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Path and text of each problem; of the first rule without its number."""
    try:
        loaded(bodies)
    except RefusedError as error:
        return [
            (each.path.removeprefix("[0]."), f"{each.found}; {each.expected}; {each.hint}") for each in error.problems
        ]
    return []
