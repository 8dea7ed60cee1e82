"""A Java process that ends during a run is reported as such."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError

from crossline.basics.errors import PermanentError
from crossline.runtime.java import launch
from crossline.runtime.java.launch import RunningJava
from crossline.runtime.machine.temporary_folders import own_folder
from crossline.runtime.spark_internals import gateway


@pytest.fixture
def java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> RunningJava:
    """Something that lives as Java does, until its standard input ends."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = own_folder()
    process = subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    made = RunningJava(process, folder, tmp_path / "output", None)
    monkeypatch.setattr(launch, "_started", [made])
    return made


class Gone:
    """A session whose Java is gone."""

    def stop(self) -> None:
        raise ConnectionRefusedError(111, "Connection refused")


def test_who_ended_it_and_what_is_to_be_done(java: RunningJava) -> None:
    os.kill(java.process.pid, signal.SIGKILL)
    with pytest.raises(PermanentError, match=r"Java, in which Spark runs, was ended by SIGKILL.*the next start"):
        gateway.raise_if_java_ended(Py4JNetworkError("Answer from Java side is empty"))
    gone: Any = Gone()
    gateway.end_session(gone)
    assert not java.folder.path.exists()


def test_what_has_nothing_to_do_with_java_is_reported_as_it_is(
    java: RunningJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway, "_ENDED_S_MAX", 0.01)
    gateway.raise_if_java_ended(ConnectionResetError(104, "of a broker"))
    gateway.raise_if_java_ended(ValueError("another"))
    launch.end(java)
    gateway.raise_if_java_ended(ValueError("another"))
