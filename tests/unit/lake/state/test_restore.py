"""A checkpoint from the lake: whole or not there, over kills at every step; in a folder, and on a store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from crossline.basics.errors import StateError, UsageError
from crossline.cli.main import run_command
from crossline.io.objects.file_stores import file_store
from crossline.io.outbox.sink import waiting_in
from crossline.lake.watermark import Watermarks
from crossline.rule_registry.log_file import LogFile
from crossline.runtime.snapshot import lease as lease_module
from crossline.runtime.snapshot.checkpoint import claim
from crossline.runtime.snapshot.checkpoint_store import StoredCheckpoint
from crossline.runtime.snapshot.lease import CLAIMS
from crossline.runtime.snapshot.spark_log import last_committed, last_planned, query_id

from .state_kit import NAME, NOW_MS, KeptPipeline, KilledError

COUNT = 4.0  # of the fourth record of an account


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[KeptPipeline]:
    """Three batches and their snapshot; a list in the rule log, an alert that a sink has not got."""
    made = KeptPipeline(tmp_path)
    for _ in range(3):
        made.batch()
    made.log_list(1)
    made.wait_for_sink("p00001")
    made.round()
    yield made
    made.snapshots.lake.close()


def killed_at(step: str) -> Callable[[str], None]:
    def before(name: str) -> None:
        if name == step:
            raise KilledError

    return before


def test_all_that_the_next_run_needs_is_there(kept: KeptPipeline) -> None:
    """The disk is gone, and the rule log with it; the source and the rule files are not."""
    log, content = kept.rule_log.read_bytes(), next((kept.rule_log.parent / "lists").iterdir())
    given = content.read_bytes()
    kept.batch()  # after the snapshot: judged again
    shutil.rmtree(kept.folder)
    shutil.rmtree(kept.rule_log.parent)
    with capture_logs():
        done = kept.restoring().restore(kept.last())
    folder = str(kept.folder)
    assert (done.place, done.again, last_committed(folder), last_planned(folder)) == (folder, None, 2, 2)
    assert query_id(folder) == done.checkpoint != kept.last().checkpoint
    assert kept.rule_log.read_bytes() == log
    assert content.read_bytes() == given
    assert waiting_in(kept.folder / "behind" / "webhook-1") == 1
    assert {each.name for each in kept.folder.iterdir()} == {
        *("behind", "held", "history.jsonl", "history.last.json", "owner.json", "restored.json"),
        *("snapshot.json", "sources", "spark", "state"),
    }
    assert claim(folder).release() is None, "the lock is free again"
    mark = Watermarks.of(kept.snapshots.lake).last(done.checkpoint)
    assert (mark.batch, mark.clocks, mark.delivered_ms) == (2, {"payments": 2}, NOW_MS + 2)
    kept.life.logs["payments"].pop()
    assert kept.gone_on() == COUNT


def test_killed_at_any_step_it_is_repeated(kept: KeptPipeline) -> None:
    shutil.rmtree(kept.folder)
    for step in ("files", "watermark", "rename"):
        with pytest.raises(KilledError):
            kept.restoring(before_step=killed_at(step)).restore(kept.last())
        assert last_planned(str(kept.folder)) == -1, "a run would start anew"
    kept.restoring().restore(kept.last())
    assert kept.gone_on() == COUNT
    assert not kept.folder.with_name(f".{kept.folder.name}.restoring").exists()


def test_the_lake_forgets_nothing_that_the_lost_checkpoint_gave(kept: KeptPipeline) -> None:
    """Later batches are in the lake: what was known stays known while they are judged again."""
    later = kept.mark(kept.batch())
    shutil.rmtree(kept.folder)
    kept.restoring().restore(kept.last())
    newest = Watermarks.of(kept.snapshots.lake).newest()
    assert newest is not None
    assert (newest.batch, newest.delivered_ms) == (2, later.delivered_ms)


def test_a_checkpoint_that_is_there_is_left_alone(kept: KeptPipeline) -> None:
    before = {path: path.read_bytes() for path in kept.folder.rglob("*") if path.is_file() and path.name != "held"}
    with pytest.raises(UsageError, match=r"found behind in it, expected no checkpoint; .* move the checkpoint away"):
        kept.restoring().restore(kept.last())
    assert {path: path.read_bytes() for path in before} == before
    mine = claim(str(kept.folder))
    with pytest.raises(StateError, match="held by another run"):
        kept.restoring().restore(kept.last())
    mine.release()


def test_the_state_of_another_pipeline_is_refused(kept: KeptPipeline) -> None:
    shutil.rmtree(kept.folder)
    other = kept.restoring()
    made = type(other)("shop", other.place, other.log_path, other.snapshots, NOW_MS)
    with pytest.raises(StateError, match=rf"is the state of pipeline {NAME}, found shop"):
        made.restore(kept.last())


def test_the_rule_log_goes_on_from_that_of_the_snapshot(kept: KeptPipeline) -> None:
    written = kept.rule_log.read_bytes()
    kept.log_list(2)
    longer = kept.rule_log.read_bytes()
    another = written.replace(b"started", b"stopped")
    backup = kept.rule_log.with_name(f"{NAME}.jsonl.before-{NOW_MS}")
    for here, expected in ((longer, longer), (written[:60], written), (another, written)):
        kept.rule_log.write_bytes(here)
        shutil.rmtree(kept.folder)
        with capture_logs() as logged:
            kept.restoring().restore(kept.last())
        assert kept.rule_log.read_bytes() == expected
        assert backup.exists() == (here == another)
        assert any("is not the one that judged" in each["event"] for each in logged) == (here == another)


def test_a_batch_that_was_planned_comes_again(kept: KeptPipeline) -> None:
    kept.life.take_in([{"account": "a1", "_id": "x", "_event_ms": 5_000, "_ingest_ms": 5_000}], 1)
    kept.life.plan_batch()
    kept.now_ms += 86_400_000
    kept.batch()  # the life plans again: its chunks are those of both
    kept.life.take_in([{"account": "a1", "_id": "y", "_event_ms": 6_000, "_ingest_ms": 6_000}], 1)
    kept.life.plan_batch()
    kept.round()
    shutil.rmtree(kept.folder)
    done = kept.restoring().restore(kept.last())
    assert (done.snapshot.batch, done.again, last_planned(str(kept.folder))) == (3, 4, 4)


def gone_on_from(uri: str, kept: KeptPipeline) -> float:
    """The count that a run on the store goes on with, on another machine."""
    held = StoredCheckpoint(uri)
    elsewhere = kept.root / "elsewhere" / f"{NAME}.jsonl"
    held.keep_log(elsewhere)
    events = LogFile(elsewhere).open()
    assert [event.event for event in events] == ["started", "list_changed"]
    shutil.rmtree(kept.folder, ignore_errors=True)
    shutil.copytree(held.folder, kept.folder)
    shutil.copytree(Path(held.state_root.removeprefix("file://")), kept.folder / "state")
    assert waiting_in(held.sink_store("webhook-1")) == 1
    held.release()
    return kept.gone_on()


def test_on_a_store_it_is_there_with_one_note(kept: KeptPipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 3600.0)
    uri = (kept.root / "store").as_uri()
    for step in ("files", "watermark", "note"):
        with pytest.raises(KilledError):
            kept.restoring(uri, before_step=killed_at(step)).restore(kept.last())
        file_store(uri).clear(CLAIMS)  # the hold of a dead process
        held = StoredCheckpoint(uri)
        assert last_planned(str(held.folder)) == -1, "a run would start anew"
        held.release()
    done = kept.restoring(uri).restore(kept.last())
    assert done.place == uri
    with pytest.raises(UsageError, match="found batches in it, expected no checkpoint"):  # and it is left as it is
        kept.restoring(uri).restore(kept.last())
    assert gone_on_from(uri, kept) == COUNT


def test_the_command(kept: KeptPipeline, capsys: pytest.CaptureFixture[str]) -> None:
    (kept.root / "pipeline.yaml").write_text(kept.pipeline.text)
    command: list[Any] = ["lake", "restore", "--pipeline", str(kept.root / "pipeline.yaml")]
    assert run_command([*command, "--list"]) == 0
    assert "checkpoint-1" in capsys.readouterr().out
    assert run_command([*command, "--at", "yesterday"]) == 2
    assert "--at: " in capsys.readouterr().err
    shutil.rmtree(kept.folder)
    assert run_command([*command, "--json"]) == 0
    assert f'"checkpoint":"{kept.folder}"' in capsys.readouterr().out
    assert run_command(command) == 2
    assert "expected no checkpoint" in capsys.readouterr().err
    assert kept.gone_on() == COUNT
