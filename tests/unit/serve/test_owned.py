"""What was answered is of one pipeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from crossline.core.basics.errors import UsageError
from crossline.serve.owned import OWNER, check_owner, note_owner


def test_a_folder_is_the_first_pipelines_that_was_served_from_it(tmp_path: Path) -> None:
    check_owner(tmp_path, "bank")
    note_owner(tmp_path, "shop")
    note_owner(tmp_path, "shop")
    for ask in (check_owner, note_owner):
        with pytest.raises(UsageError, match="has what was answered for pipeline shop; expected that of bank"):
            ask(tmp_path, "bank")
    check_owner(tmp_path, "shop")


@pytest.mark.parametrize("found", [b"", b"{}", b"[]", b'{"pipeline"'])
def test_a_note_that_a_kill_left_is_made_again(tmp_path: Path, found: bytes) -> None:
    (tmp_path / OWNER).write_bytes(found)
    note_owner(tmp_path, "shop")
    with pytest.raises(UsageError, match="pipeline shop"):
        check_owner(tmp_path, "bank")


def test_a_folder_that_is_not_there_is_anybodys(tmp_path: Path) -> None:
    check_owner(tmp_path / "serve", "shop")
