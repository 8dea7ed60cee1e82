"""One log, cut in any way: stream, drained stream and backtest say the same, which is what the naive twin says."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from crossline.backtest import in_process, in_spark
from crossline.backtest.backtest import BacktestSpec, RecordedInput
from crossline.rule_registry.directory import log_path, ruleset_of_log
from crossline.rules.base import Defaults
from crossline.rules.rule_reader import load_rules_text
from crossline.rules.ruleset import RuleSet
from crossline.runtime.pipeline import batches, planner
from crossline.runtime.spark import flow
from crossline.runtime.stages.spill import clear

from .project import Alerts, Project, by_id, figures, from_twin
from .traffic import CASH, RULES, STREAM, Body, Record, expected, lines, records, velocity

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
COUNT = 240
DEFAULTS = Defaults(time_mode="event_time", watermark_delay_ms=5_000, allowed_lateness_ms=20_000)


def cut(data: bytes, seed: int, pieces: int) -> list[bytes]:
    """``data`` cut after any of its lines."""
    draw = random.Random(seed)
    items = data.splitlines(keepends=True)
    ends = sorted(draw.sample(range(1, len(items)), pieces - 1))
    return [b"".join(items[a:b]) for a, b in zip([0, *ends], [*ends, len(items)], strict=True)]


def replayed(project: Project, rules: RuleSet, spark: SparkSession | None = None) -> list[dict[str, Any]]:
    """The alerts of a backtest, in their order: in processes of this machine, or in Spark."""
    output = project.root / "backtest.jsonl"
    history = RecordedInput(project.config().streams, {STREAM: [str(project.root / "in")]})
    judged = BacktestSpec(rules, history, defaults=DEFAULTS)
    if spark is None:
        in_process.backtest(judged, output)
    else:
        in_spark.backtest(spark, judged, output)
    return [json.loads(line) for line in output.read_text().splitlines()]


def written(bodies: list[Body]) -> RuleSet:
    return RuleSet.from_rules([each.rule for each in load_rules_text(yaml.safe_dump(bodies), "rules.yaml")])


@pytest.fixture(scope="module")
def log() -> list[Record]:
    return records(COUNT, seed=1)


@pytest.fixture(scope="module")
def drained(spark: SparkSession, log: list[Record], tmp_path_factory: pytest.TempPathFactory) -> Project:
    """One file, run to its end."""
    project = Project(tmp_path_factory.mktemp("drained"), RULES)
    project.give("all.jsonl", lines(log))
    project.drain(spark)
    return project


def test_the_drained_stream_is_what_the_naive_twin_says(drained: Project, log: list[Record]) -> None:
    twin = expected(RULES, log)
    assert figures(drained.alerts()) == from_twin(twin)
    assert drained.dead() == sorted(("duplicate_id", log[n]["id"]) for n in twin.duplicates)
    assert drained.late() == sorted(log[n]["id"] for n in twin.late)


def test_large_batches_travel_in_files_which_go(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    met: list[set[Path]] = []

    def noted(folder: Path) -> None:
        met.append(set(folder.iterdir()) if folder.exists() else set())
        clear(folder)

    monkeypatch.setattr(batches, "clear", noted)
    log, project = records(2 * COUNT, seed=2), Project(tmp_path, RULES)
    project.give("all.jsonl", lines(log))
    project.drain(spark)
    assert figures(project.alerts()) == from_twin(expected(RULES, log))
    assert met[0], "the batch was to be large enough"
    assert not any(path.exists() for paths in met for path in paths)


def test_a_backtest_says_what_the_stream_stated(drained: Project) -> None:
    assert by_id(replayed(drained, written(RULES))) == drained.alerts()


def test_runners_say_the_same_in_the_same_order(spark: SparkSession, drained: Project) -> None:
    here, in_tasks = (replayed(drained, written(RULES), runner) for runner in (None, spark))
    for alert in (*here, *in_tasks):
        del alert["detected_at"]
    assert here == in_tasks


@pytest.mark.parametrize(
    ("seed", "narrow_records", "batch_bytes", "in_process"),
    [(1, -1, 1_500, "never"), (2, 8, 400, "never"), (3, 8, 1_500, "auto")],
)
def test_files_that_come_one_by_one_give_the_same(
    spark: SparkSession,
    drained: Project,
    log: list[Record],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    narrow_records: int,
    batch_bytes: int,
    in_process: str,
) -> None:
    """With a restart in the midst, files that grow in the midst of a line, chunks of a few lines, and each runner."""
    plans: list[str] = []

    def noting(plan: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
        def noted(*arguments: Any) -> DataFrame:
            plans.append(plan.__name__)
            return plan(*arguments)

        return noted

    for plan in (flow.in_stages, flow.in_one_task):
        monkeypatch.setattr(planner, plan.__name__, noting(plan))
    for module in (batches, planner):
        monkeypatch.setattr(module, "ONE_TASK_RECORDS", narrow_records)
    draw = random.Random(seed)
    engine = {"trigger": "0s", "shards": draw.randint(1, 4), "max_batch_bytes": batch_bytes, "in_process": in_process}
    count = 0
    project = Project(tmp_path, RULES, engine={**engine, "checkpoint": "out/checkpoint"})
    given = 0
    for half in range(2):
        with project.start(spark) as running:
            for number, piece in enumerate(cut(lines(log), seed, 6)[half * 3 : half * 3 + 3]):
                name = project.root / "in" / f"{half}{number}.jsonl"
                middle = draw.randrange(len(piece))
                name.write_bytes(piece[:middle])
                running.until_read(given + piece[:middle].count(b"\n"))
                with name.open("ab") as file:
                    file.write(piece[middle:])
                running.until_read(given + piece.count(b"\n"))
                given += piece.count(b"\n")
            given = 0
            count += running.pipeline.totals.batches
    if in_process == "auto":
        assert len(plans) < count / 2, "not tested"
    else:
        assert len(plans) == count
        assert set(plans) == ({"in_stages"} if narrow_records < 0 else {"in_stages", "in_one_task"})
    assert project.alerts() == drained.alerts()
    assert project.dead() == drained.dead()
    assert project.late() == drained.late()


class TestRulesThatChange:
    """New versions and new rules come in the midst of the stream; by the log, a backtest judges as it did."""

    def run(
        self, spark: SparkSession, root: Path, log: list[Record], changes: list[list[Body]]
    ) -> tuple[Project, Alerts]:
        """The log in pieces, a change of rules before each but the first; the project, and the backtest by its log."""
        project = Project(root, RULES)
        pieces = cut(lines(log), 7, len(changes) + 1)
        given = 0
        with project.start(spark) as running:
            for number, piece in enumerate(pieces):
                if number:
                    project.publish(f"change{number}.yaml", changes[number - 1])
                    for body in changes[number - 1]:
                        running.until_logged("published", rule_id=body["rule_id"], version=body["version"])
                project.give(f"{number}.jsonl", piece)
                given += piece.count(b"\n")
                running.until_read(given)
        return project, by_id(replayed(project, ruleset_of_log(log_path(root / "rules", "shop"))))

    def as_published(self, project: Project) -> list[Body]:
        """The rules as the twin takes them: bodies with the instants that the log gives them."""
        events = [e for e in project.rule_log() if e["event"] in {"published", "status_changed"}]
        return [{**e["body"], "effective_from": e["effective_from_ms"]} for e in events]

    def check(self, spark: SparkSession, root: Path, changes: list[list[Body]], rule_id: str, version: int) -> None:
        log = records(COUNT, seed=3)
        project, again = self.run(spark, root, log, changes)
        alerts = project.alerts()
        assert any((a["rule_id"], a["rule_version"]) == (rule_id, version) for a in alerts.values()), "not tested"
        assert figures(alerts) == from_twin(expected(self.as_published(project), log))
        assert alerts == again

    def test_a_new_version_with_another_threshold(self, spark: SparkSession, tmp_path: Path) -> None:
        newer = [velocity("burst", threshold=3, version=2)]
        newest = [velocity("burst", threshold=4, version=3, emit="every")]
        self.check(spark, tmp_path, [newer, newest], "burst", 3)

    def test_a_new_rule_on_records_that_are_kept(self, spark: SparkSession, tmp_path: Path) -> None:
        self.check(spark, tmp_path, [[velocity("soon", threshold=2, window="20s")]], "soon", 1)

    def test_a_new_rule_that_needs_more_of_the_past(self, spark: SparkSession, tmp_path: Path) -> None:
        """A column, a condition, a window and a key that nothing kept: read again from the source."""
        fresh = [
            velocity("sums", "sum", 1_000, aggregation_field="amount", window="3m", conditions=CASH),
            velocity("devices", "distinct_count", 2, aggregation_field="account", group_by=["device", "kind"]),
        ]
        self.check(spark, tmp_path, [fresh], "devices", 1)
