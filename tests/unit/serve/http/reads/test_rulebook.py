"""Rules and their log are read again where a file changed, and only then."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.unit.serve.http.kit import project

from crossline.rule_registry.content import read_pipeline_in_place
from crossline.serve.http.reads import rulebook as module
from crossline.serve.http.reads.rulebook import Rulebook, rulebook
from crossline.settings.config import PipelineConfig

LONG_AGO_S = 1_700_000_000


def settled(folder: Path) -> PipelineConfig:
    """The example, of which every file was written long ago."""
    for each in (folder / "rules").rglob("*"):
        os.utime(each, (LONG_AGO_S, LONG_AGO_S))
    return read_pipeline_in_place(folder / "pipeline.yaml")


def test_what_stands_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config, read = settled(project(tmp_path)), list[Rulebook]()

    def counted(given: PipelineConfig) -> Rulebook:
        read.append(_read(given))
        return read[-1]

    _read = module._read
    monkeypatch.setattr(module, "_read", counted)
    assert rulebook(config) is rulebook(config)
    assert len(read) == 1
    assert {row["rule_id"] for row in read[0].rows} == {"card_testing", "large_payment", "spending"}


@pytest.mark.parametrize("change", ["text", "same size", "a new file", "a file that went"])
def test_a_change_is_seen_at_once(tmp_path: Path, change: str) -> None:
    folder = project(tmp_path)
    config = settled(folder)
    before = rulebook(config)
    path = folder / "rules/large_payment.yaml"
    text = path.read_text()
    if change == "text":
        path.write_text(text.replace("version: 1", "version: 20"))
    elif change == "same size":
        path.write_text(text.replace("version: 1", "version: 2"))
    elif change == "a new file":
        (folder / "rules/more.yaml").write_text(text.replace("large_payment", "larger_payment"))
    else:
        path.unlink()
    after = rulebook(config)
    assert after is not before

    def names(snapshot: Rulebook) -> set[tuple[str, int]]:
        return {(row["rule_id"], row["version"]) for row in snapshot.versions}

    assert (
        names(after) - names(before)
        == {
            "text": {("large_payment", 20)},
            "same size": {("large_payment", 2)},
            "a new file": {("larger_payment", 1)},
            "a file that went": set(),  # what is live stays live
        }[change]
    )


def test_what_changed_just_now_is_not_kept(tmp_path: Path) -> None:
    """Twice within one tick of the file's clock, of equal size: only the text differs."""
    config = read_pipeline_in_place(project(tmp_path) / "pipeline.yaml")
    for each in (tmp_path / "project/rules").rglob("*"):
        os.utime(each)
    assert rulebook(config) is not rulebook(config)
