"""The text of refusals is product: for each bad file in tests/golden/rules the whole report, word for word.

To take a change up, delete the .txt files and run the test once; then read what it wrote.
"""

from pathlib import Path

import pytest

from crossline.basics.streams.schema import load_streams
from crossline.basics.texts.problems import RefusedError
from crossline.rules.rule_reader import load_rules_text

FOLDER = Path(__file__).parents[2] / "golden" / "rules"
STREAMS = load_streams((FOLDER / "stream.yaml").read_text(), "stream.yaml")
CASES = sorted(path for path in FOLDER.glob("*.yaml") if path.name != "stream.yaml")


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_the_report_of(path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        load_rules_text(path.read_text(), f"rules/{path.name}", STREAMS, ["watchlist", "friends"])
    report = str(caught.value) + "\n"
    expected = path.with_suffix(".txt")
    if not expected.exists():
        expected.write_text(report)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert report == expected.read_text()


def test_there_are_a_dozen() -> None:
    assert len(CASES) >= 12
