"""``crossline demo``: it deletes no folder but its own; what it says fits narrow screens."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from crossline.cli.demo import command as demo
from crossline.cli.main import run_command
from crossline.runtime.snapshot.checkpoint import claim


@pytest.fixture
def laid(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path | str], int]:
    """Runs the command as far as its project is laid out."""

    class DoneError(Exception):
        pass

    def stop(*_: object) -> None:
        raise DoneError

    monkeypatch.setattr("crossline.runtime.pipeline.assemble.read_config", stop)

    def run(folder: Path | str) -> int:
        try:
            return run_command(["demo", "--folder", str(folder)])
        except DoneError:
            return 0

    return run


def names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def test_a_folder_that_is_missing_or_empty_is_taken(tmp_path: Path, laid: Callable[[Path], int]) -> None:
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "deep" / "new", tmp_path / "empty"):
        assert laid(folder) == 0
        assert {demo.MARKER, "pipeline.yaml", "rules"} <= set(names(folder))


def test_an_earlier_demo_is_replaced(tmp_path: Path, laid: Callable[[Path], int]) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine").touch()
    folder = tmp_path / "demo"
    laid(folder)
    new = names(folder)
    (folder / "out" / "checkpoint").mkdir(parents=True)
    (folder / "link").symlink_to(outside)
    assert laid(folder) == 0
    assert names(folder) == new
    assert names(outside) == ["mine"]


def test_one_that_is_at_work_is_left_alone(
    tmp_path: Path, laid: Callable[[Path], int], capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "demo"
    laid(folder)
    held = claim(str(folder / "out" / "checkpoint"))
    before = sorted(folder.rglob("*"))
    assert laid(folder) == 2
    assert "is at work in" in capsys.readouterr().err
    assert sorted(folder.rglob("*")) == before
    held.release()
    assert laid(folder) == 0
    assert not (folder / "out").exists()


@pytest.mark.parametrize("there", ["mine.txt", ".hidden", "pipeline.yaml"])
def test_a_folder_of_another_user_is_left_alone(
    tmp_path: Path, laid: Callable[[Path], int], capsys: pytest.CaptureFixture[str], there: str
) -> None:
    (tmp_path / there).write_text("precious")
    assert laid(tmp_path) == 2
    assert names(tmp_path) == [there]
    assert (tmp_path / there).read_text() == "precious"
    assert "is not empty, and no demo made it" in capsys.readouterr().err


def test_links_files_and_what_holds_the_working_directory_are_refused(
    tmp_path: Path,
    laid: Callable[[Path | str], int],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "demo"
    laid(folder)
    before = names(folder)
    (tmp_path / "link").symlink_to(folder)
    (tmp_path / "file").touch()
    inside = folder / "rules"
    monkeypatch.chdir(inside)
    monkeypatch.setenv("HOME", str(folder / "out"))
    for wrong, found in (
        (tmp_path / "link", "is a link"),
        (tmp_path / "file", "is a file"),
        (folder, "holds it"),
        (".", "holds it"),
        (f"{folder}/rules/..", "holds it"),
        ("/", "holds it"),
    ):
        assert laid(wrong) == 2
        assert found in capsys.readouterr().err
    assert names(folder) == before
    monkeypatch.chdir("/")
    assert laid(folder) == 2
    assert "your home or holds it" in capsys.readouterr().err


def test_what_it_says_fits_forty_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    figures = {
        "records": 72_000,
        "elapsed_ms": 36_500,
        "records_per_s": 1_972,
        "alerts": {"card_testing_with_a_name_that_is_long": 12},
        "scenarios": {"card_testing": 1.0, "none_planted": None},
        "recall": 1.0,
        "precision": 0.97,
        "latency_p50_ms": 114,
        "latency_p99_ms": 189,
        "results": ["/work/out/[red]/demo/out/crossline.db"],
    }
    text = demo.as_text(figures)
    assert max(map(len, text.splitlines())) <= 40
    joined = "".join(text.split())
    for part in ("card_testing_with_a_name_that_is_long", "[red]/demo/out/crossline.db", "precision0.97", "189ms"):
        assert part in joined
