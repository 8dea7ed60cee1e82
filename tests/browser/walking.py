"""A pipeline that runs, its API and its console beside it: what the walk goes through, as a user has it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from crossline.cli.main import run_command
from e2e.project import Project
from e2e.serving import Running, free_port, serving
from e2e.traffic import lines
from unit.serve.console.kit import PASSWORD

STREAM = "transfers"
PEOPLE = {"ines.vale": ("analyst",), "oda.lind": ("approver",), "all.roles": ("analyst", "approver", "operator")}
FIELDS = {"id": "string", "account": "string", "payee": "string", "cents": "integer", "at": "integer"}
STREAMS = {STREAM: {"format": "json", "id": "id", "event_time": {"field": "at", "unit": "ms"}, "fields": FIELDS}}
LARGE = {
    "rule_id": "large_transfer",
    "version": 1,
    "rule_type": "threshold",
    "source_topic": STREAM,
    "severity": "medium",
    "action": "review",
    "score": 40,
    "description": "{cents} cents in one transfer from account {account}",
    "conditions": [{"field": "cents", "operator": ">=", "value": 500_000}],
}
MULE = """\
rule_id: payee_many_senders
version: 1
rule_type: velocity
source_topic: transfers
group_by: payee
aggregation_type: distinct_count
aggregation_field: account
aggregation_threshold: 4
window: 15m
severity: high
action: review
score: 60
description: "{value} accounts sent money to {payee} in {window}"
"""
POLICY = {"schema_version": 1, "version": 1, "bands": [{"from": 50, "decision": "review"}]}
DAY_MS, MINUTE_MS = 86_400_000, 60_000
PAST_DAYS = 3


@dataclass
class Walk:
    """What runs, and the folder that it reads."""

    project: Project
    running: Running
    url: str

    def give(self, name: str, records: Iterable[Mapping[str, Any]]) -> None:
        """A file of records, which the pipeline reads."""
        self.project.give(f"{name}.jsonl", lines(records))


def transfer(number: int, at_ms: int, payee: str, cents: int = 21_000, account: str = "") -> dict[str, Any]:
    """One record; by default each is of another account."""
    return {"id": f"t{number:05d}", "account": account or f"a{number}", "payee": payee, "cents": cents, "at": at_ms}


def past(now_ms: int) -> list[dict[str, Any]]:
    """Three days: each day a mule whom five accounts pay within a few minutes, and payees whom one account pays."""
    made = []
    for day in range(PAST_DAYS, 0, -1):
        begins = now_ms - day * DAY_MS
        made += [transfer(len(made) + n, begins + n * MINUTE_MS, f"mule{day}") for n in range(5)]
        quiet = [
            transfer(len(made) + n, begins + n * 20 * MINUTE_MS, f"p{n}", 1_000 + n, f"a{n % 9}") for n in range(5, 60)
        ]
        made += quiet
    return made


@contextmanager
def walking(root: Path) -> Iterator[Walk]:
    """Start it; ended as a terminal would end it."""
    now_ms = time.time_ns() // 1_000_000
    port = free_port()
    serve = {
        "listen": f"127.0.0.1:{port}",
        "users": "users.db",
        "path": "out/serve",
        "cases": {"link": ["payee"], "within": "1h", "money": {"field": "cents", "decimals": 2}},
    }
    project = Project(
        root,
        [LARGE],
        name="transfers",
        streams=STREAMS,
        sources={STREAM: {"kind": "files", "path": "in"}},
        policy="policy.yaml",
        defaults={"watermark_delay": "5s", "allowed_lateness": "2m", "record": "all"},
        serve=serve,
    )
    (root / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    (root / "password").write_text(PASSWORD)
    for name, roles in PEOPLE.items():
        given = [word for role in roles for word in ("--role", role)]
        of = ["--pipeline", str(project.pipeline), "--name", name, "--password-file", str(root / "password")]
        assert run_command(["serve", "users", "create", *of, *given]) == 0
    made = past(now_ms)
    project.give("past.jsonl", lines([*made, transfer(900, now_ms - MINUTE_MS, "shop", 750_000, "a900")]))
    with serving(project.pipeline) as running:
        running.ready()
        yield Walk(project, running, f"http://127.0.0.1:{port}")
