"""Nobody but this user's processes on this machine gets to what listens: Java, its Python workers, state servers."""

from __future__ import annotations

import ipaddress
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from crossline.runtime.workers import state_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_all_that_listens_is_on_loopback_or_closed_to_others(spark: SparkSession) -> None:
    def ask_a_state_server(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Has a state server forked, and gives back what comes."""
        state_server_folder = state_server.state_server_folder()
        assert state_server_folder is not None
        state_server_folder.connect(0).close()
        yield from batches

    assert spark.range(4).repartition(2).mapInArrow(ask_a_state_server, "id long").count() == 4
    listening, unix = set(), set()
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):  # one that has ended since listens no more
            listening |= {c.laddr.ip for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN}
            unix |= {c.laddr for c in process.net_connections("unix") if c.laddr}
    # A state server outlives the worker that forked it, and is then nobody's child.
    unix |= {c.laddr for c in psutil.net_connections("unix") if "server-" in str(c.laddr)}
    assert listening
    assert all(ipaddress.ip_address(ip.removeprefix("::ffff:")).is_loopback for ip in listening), listening
    assert any("server-" in str(path) for path in unix)
    for path in map(Path, unix):
        if path.exists() and path.stat().st_uid == os.getuid():
            # To connect takes the right to write to the socket, and to enter its folder.
            others = stat.S_IRWXG | stat.S_IRWXO
            open_to_others = path.stat().st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            assert not open_to_others or not path.parent.stat().st_mode & others, path
