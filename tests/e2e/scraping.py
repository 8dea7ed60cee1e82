"""What a watch serves, as who scrapes it reads it; and the names in the files that are loaded beside it."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml
from prometheus_client.parser import text_string_to_metric_families

from crossline.settings.watch import Address

WAIT_S = 120.0
DEPLOY = Path(__file__).parents[2] / "deploy" / "watch"
_ENDINGS = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def get(place: Address, path: str) -> tuple[int, str]:
    """Status and body."""
    try:
        with urllib.request.urlopen(f"http://{place}{path}", timeout=30) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def asked(place: Address, path: str) -> tuple[int, dict[str, Any]]:
    status, body = get(place, path)
    return status, json.loads(body)


def until(place: Address, path: str, status: int) -> dict[str, Any]:
    """Ask until that is the answer; it."""
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        found, text = asked(place, path)
        if found == status:
            return text
        time.sleep(0.02)
    raise AssertionError(f"{path} did not become {status}: {text}")


class Scrape:
    """One answer of /metrics."""

    def __init__(self, place: Address) -> None:
        status, text = get(place, "/metrics")
        assert status == 200, text
        self.families = list(text_string_to_metric_families(text))

    def names(self) -> set[str]:
        """All names that expressions may use."""
        return {f"{each.name}{ending}" for each in self.families for ending in _ENDINGS.get(each.type, ())}

    def values(self, name: str) -> dict[tuple[str, ...], float]:
        """By the values of the labels, in the order of their names."""
        samples = (sample for each in self.families for sample in each.samples if sample.name == name)
        return {tuple(value for _, value in sorted(sample.labels.items())): sample.value for sample in samples}


def until_scraped(place: Address, done: Callable[[Scrape], bool]) -> Scrape:
    deadline_s = time.monotonic() + WAIT_S
    while time.monotonic() < deadline_s:
        found = Scrape(place)
        if done(found):
            return found
        time.sleep(0.02)
    raise AssertionError({each.name: each.samples for each in found.families})


def alerting_rules(file: str = "alerts.yaml") -> list[dict[str, Any]]:
    groups = yaml.safe_load((DEPLOY / file).read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def dashboard_expressions() -> list[str]:
    """Those of all panels, with what Grafana fills in filled in."""
    panels = json.loads((DEPLOY / "dashboard.json").read_text())["panels"]
    found = [target["expr"] for panel in panels for target in panel["targets"]]
    return [each.replace("$__rate_interval", "1m").replace("$instance", ".*") for each in found]


def names_in(expression: str) -> set[str]:
    """The metrics that an expression reads; raises ValueError where it is none."""
    return set(_names(promql_parser.parse(expression)))


def _names(node: Any) -> Iterator[str]:
    if isinstance(node, promql_parser.VectorSelector):
        yield node.name
    for field in ("expr", "lhs", "rhs", "vector_selector", "param", "vs"):
        child = getattr(node, field, None)
        if child is not None and not isinstance(child, str):
            yield from _names(child)
    for argument in getattr(node, "args", None) or ():
        yield from _names(argument)
