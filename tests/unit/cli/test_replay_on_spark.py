"""What a replay or maintenance on Spark refuses before Spark starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.basics.errors import UsageError
from crossline.cli.lake.lake_options import check_reachable
from crossline.cli.replay import replay
from crossline.cli.signals import Runner
from unit.lake.lake_kit import SpooledPipeline


def test_a_folder_of_its_own_is_refused() -> None:
    with pytest.raises(UsageError, match=r"--resume kept: a replay on Spark keeps no folder.*use --on local"):
        replay(on=Runner.SPARK, resume=Path("kept"))


@pytest.mark.parametrize("master", ["spark://cluster:7077", "yarn"])
def test_a_lake_in_a_folder_is_out_of_reach_of_a_cluster(tmp_path: Path, master: str) -> None:
    pipeline = SpooledPipeline(tmp_path)
    pipeline.text += f"engine: {{master: '{master}'}}\n"
    with pytest.raises(UsageError, match=rf"a folder of this machine, and engine\.master {master}, .* object store"):
        check_reachable(pipeline.config)


@pytest.mark.parametrize("master", ["local[2]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077"])
def test_tasks_of_this_machine_reach_it(tmp_path: Path, master: str) -> None:
    pipeline = SpooledPipeline(tmp_path)
    pipeline.text += f"engine: {{master: '{master}'}}\n"
    check_reachable(pipeline.config)
