"""A run that goes on from a checkpoint has read its states by the time that Spark has a batch for them."""

from __future__ import annotations

from pathlib import Path

import pytest

from .feeding import taken
from .killing import RULES, SEED, finish, kill_driver, project_at, running, until, wait_for_all_to_end
from .project import figures, from_twin
from .traffic import expected, lines, records

pytestmark = pytest.mark.spark


@pytest.mark.timeout(900)
def test_a_restart_reads_no_state_in_a_batch(tmp_path: Path) -> None:
    log = records(600, seed=SEED)
    project = project_at(tmp_path)
    project.give("1.jsonl", lines(log[:300]))
    with running(project) as process:
        until(lambda: taken(project) >= 100, project, process)
        kill_driver(process)
        wait_for_all_to_end(process)
    project.give("2.jsonl", lines(log[300:]))
    (done,) = project.rows("SELECT max(batch_id) FROM batches")
    finish(project)
    read = project.rows(
        f"SELECT batch_id, json_extract(figures, '$.segments_read') FROM batches WHERE batch_id > {done[0]}"  # noqa: S608 - a number of ours
    )
    assert read
    assert not [row for row in read if row[1]], read
    assert figures(project.alerts()) == from_twin(expected(RULES, log))
