"""The refusals of rules that name shared figures, word for word. To take a change up: delete the text, run, read."""

from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import render
from crossline.rule_registry.file_check import judge
from crossline.rule_registry.history import History
from crossline.rule_registry.rule_files import Known, read_files
from crossline.rule_registry.sources.folder import Folder

FOLDER = Path(__file__).parents[2] / "golden" / "figures"


def test_the_reports() -> None:
    streams = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")
    files = Folder(FOLDER / "named", (".yaml",), 2**20).changed() or {}
    _, refused = judge(read_files(files, Known(streams)), History())
    assert sorted(refused) == ["rule_of_a_draft.yaml", "rules.yaml", "twice.yaml"]
    problems = [problem for each in refused.values() for problem in each.problems]
    report, expected = render(problems) + "\n", FOLDER / "named" / "reports.txt"
    if not expected.exists():
        expected.write_text(report)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert report == expected.read_text()
