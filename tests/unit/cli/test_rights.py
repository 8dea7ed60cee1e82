"""Only the owner may read what commands write, unless a umask says otherwise."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest


def command(*arguments: str, umask_text: str | None = None) -> subprocess.CompletedProcess[str]:
    """A command line in a process whose umask is the usual one."""
    environment = {name: value for name, value in os.environ.items() if name != "CROSSLINE_UMASK"}
    return subprocess.run(
        [sys.executable, "-m", "crossline.cli.main", *arguments],
        env=environment if umask_text is None else {**environment, "CROSSLINE_UMASK": umask_text},
        umask=0o022,
        capture_output=True,
        text=True,
        check=False,
    )


def rights(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def generated(root: Path, text: str | None) -> tuple[str, set[str]]:
    """Rights of a folder and of the files in it, with records that were made."""
    folder = root / "made" / "below"
    done = command("generate", "tx", "--records", "10", "--files", "2", "--output", str(folder), umask_text=text)
    assert done.returncode == 0, done.stderr
    return rights(folder), {rights(path) for path in folder.iterdir()}


@pytest.mark.parametrize(
    ("text", "folder", "file"), [(None, "700", "600"), ("027", "750", "640"), ("0022", "755", "644")]
)
def test_records_are_for_this_account_alone_unless_reported(
    tmp_path: Path, text: str | None, folder: str, file: str
) -> None:
    assert generated(tmp_path, text) == (folder, {file})


def test_what_is_there_keeps_its_rights(tmp_path: Path) -> None:
    file = tmp_path / "r.jsonl"
    file.touch()
    for path, mode in ((tmp_path, 0o755), (file, 0o644)):
        path.chmod(mode)
    assert command("generate", "tx", "--records", "10", "--output", str(file)).returncode == 0
    assert (rights(tmp_path), rights(file)) == ("755", "644")


def test_a_project_is_for_people_to_share(tmp_path: Path) -> None:
    assert command("init", str(tmp_path / "shop")).returncode == 0
    assert rights(tmp_path / "shop") == "755"
    assert rights(tmp_path / "shop" / "pipeline.yaml") == "644"


@pytest.mark.parametrize("text", ["", "77", "777", "0o77", "abc", "700", "08", "0777"])
def test_no_mask_is_refused(text: str) -> None:
    done = command("generate", "tx", "--records", "10", umask_text=text)
    assert done.returncode == 2
    assert "CROSSLINE_UMASK is " in done.stderr
    assert "077 (only this user reads what a run writes, the default)" in done.stderr
