"""The sheet of components: in the open demonstration alone; marks drawn as the design says."""

from __future__ import annotations

import re
from pathlib import Path

from crossline.serve.console.layout.render import environment

from ..kit import room  # noqa: TID252 - the kit of the console's tests


def test_it_is_there_where_nobody_logs_in(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    with room(tmp_path / "open", open_=True) as at:
        page = at.seat().get("/components")
        assert page.status_code == 200
        assert "Open: no log-in" in page.text
        assert at.seat().get("/").headers["location"] == "/queue"
    with room(tmp_path) as at:
        assert at.seated("ines.vale").get("/components").status_code == 404


def drawn(part: str, call: str, **given: object) -> str:
    text = f'{{% import "layout/parts/{part}.html" as part %}}{{{{ part.{call} }}}}'
    return environment().from_string(text).render(**given)


def test_a_figure_stands_against_its_threshold_in_the_middle() -> None:
    """Of a bar 288 wide the threshold is at 144; beyond it is red, and more than twice as much ends in an arrow."""
    assert 'class="v1" y="4" width="96.0"' in drawn("figure", "bar(4 / 6, true)")
    assert "over" not in drawn("figure", "bar(1, true)")
    beyond = drawn("figure", "bar(1.5, true)")
    assert re.findall(r'class="over" x="144" y="4" width="([\d.]+)"', beyond) == ["72.0"]
    arrow = drawn("figure", "bar(31 / 6, true)")
    assert re.findall(r'class="over" x="144" y="4" width="([\d.]+)"', arrow) == ["136"]
    assert 'd="M280 1l8 7-8 7z"' in arrow
    assert "over" not in drawn("figure", "bar(1.5, false)")


def test_severity_is_reported_by_bars_and_by_its_word() -> None:
    for grade, bars in (("low", 1), ("medium", 2), ("high", 3)):
        mark = drawn("severity", f'severity("{grade}")')
        assert (mark.count('class="on"'), mark.count("<rect"), f'aria-label="{grade}"' in mark) == (bars, 4, True)
    assert 'class="bang"' in drawn("severity", 'severity("critical")')


def test_a_sparkline_is_drawn_to_its_width() -> None:
    assert 'd="M3.0 18.0L48.0 10.0L93.0 2.0"' in drawn("sparkline", 'sparkline([0.0, 0.5, 1.0], "it rose")')


def test_a_diff_says_its_signs_as_text() -> None:
    reported = drawn("diff", "diff(lines)", lines=[("-", "a <b>"), ("+", "c")])
    assert "removed: </span>a &lt;b&gt;" in reported
    assert "added: </span>c" in reported
