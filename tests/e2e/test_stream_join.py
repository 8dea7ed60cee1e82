"""Rules of several streams and of several keys, absences, hits of all of them, and what is judged again.

Two sources of files, read in pieces, with the query begun anew for each piece and the states of all shards read from
their log: alerts, corrections and decisions are those of a backtest over the whole, by the rule log.
"""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
import yaml

from crossline.backtest import in_process
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.evaluate.bounds import Bounds
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rules.policy.policy import Deciding
from crossline.runtime.java.launch import session_folder
from crossline.runtime.workers.state_server import ANNOUNCEMENT
from crossline.settings.config import rule_defaults

from .levels import BOTH, LEVELS, RULES, Log, made
from .project import Alerts, Project, read_jsonl
from .traffic import STREAM, Body, lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
POLICY: Body = {"schema_version": 1, "version": 1, "bands": [{"from": 10, "decision": "review"}]}
COUNT, PIECES = 180, 3


def pieces_of(log: Log) -> list[Log]:
    """Cut where ingest time goes on: what is of one instant is read together."""
    ends = []
    for number in range(1, PIECES):
        end = number * len(log) // PIECES
        while log[end][0] == log[end - 1][0]:
            end += 1
        ends.append(end)
    return [log[a:b] for a, b in zip([0, *ends], [*ends, len(log)], strict=True)]


def replayed(project: Project) -> tuple[Alerts, list[Body]]:
    """Alerts and decisions of a backtest by the rule log."""
    config, folder = project.config(), project.root
    history = RecordedInput(config.streams, {STREAM: [str(folder / "in")], LEVELS: [str(folder / "levels")]})
    judged = BacktestSpec(
        ruleset_of_log(log_path(folder / "rules", "shop")),
        history,
        defaults=rule_defaults(config),
        bounds=Bounds(config.engine.partition_lag),
        deciding=Deciding(config.policy, every=False) if config.policy is not None else None,
    )
    in_process.backtest(judged, folder / "then.jsonl", decisions=folder / "decided.jsonl")
    decided = [json.loads(line) for line in (folder / "decided.jsonl").read_text().splitlines()]
    return read_jsonl(folder / "then.jsonl"), decided


def comparable(decisions: list[Body]) -> list[tuple[Any, ...]]:
    names = ("decision_id", "kind", "record_id", "decision", "score", "revision", "revises", "because")
    return sorted((tuple(each.get(name) for name in names) for each in decisions), key=str)


def places_of(process: psutil.Process) -> list[str]:
    """The Unix sockets of a process; none of one that has gone, as those of other tests' pipelines may at any time."""
    with suppress(psutil.NoSuchProcess):
        return [str(each.laddr) for each in process.net_connections("unix")]
    return []


def forget() -> None:
    """Kill the processes that hold the states of shards: the next batch reads these from their log."""
    listen_in = (Path(str(session_folder())) / ANNOUNCEMENT).read_text()
    state_servers = [each for each in psutil.process_iter(["name"]) if each.info["name"] == "cl-state-server"]
    mine = [each for each in state_servers if any(place.startswith(listen_in) for place in places_of(each))]
    assert mine, "no process held a state"
    for each in mine:
        each.kill()


def test_what_is_read_in_pieces_is_what_a_backtest_says(spark: SparkSession, tmp_path: Path) -> None:
    project = Project(
        tmp_path,
        RULES,
        streams=BOTH,
        sources={STREAM: {"kind": "files", "path": "in"}, LEVELS: {"kind": "files", "path": "levels"}},
        policy="policy.yaml",
        decisions={"emit": "hits"},
    )
    (tmp_path / "levels").mkdir()
    (tmp_path / "policy.yaml").write_text(yaml.safe_dump(POLICY))
    for number, piece in enumerate(pieces_of(made(COUNT, seed=5))):
        for name, folder in ((STREAM, "in"), (LEVELS, "levels")):
            data = lines(each for _, stream, each in piece if stream == name)
            project.put(tmp_path / folder / f"{number}.jsonl", data)
        assert project.drain(spark).records == len(piece)
        forget()
    alerts, decided = replayed(project)
    assert project.alerts() == alerts
    stored = [json.loads(body) for (body,) in project.rows("SELECT body FROM decisions ORDER BY seq")]
    assert comparable(stored) == comparable(decided)
    assert {each["rule_id"] for each in alerts.values()} == {each["rule_id"] for each in RULES}
    assert {"alert", "correction"} <= {each["kind"] for each in alerts.values()}
    assert {"decision", "revision"} == {each["kind"] for each in decided}
