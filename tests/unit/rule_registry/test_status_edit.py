import pytest

from crossline.basics.errors import PermanentError
from crossline.basics.texts.yamltext import Path
from crossline.rule_registry.status_edit import with_share, with_status

TWO = """\
# night shift
- rule_id: a  # the first
  version: 1
- rule_id: b
  version: 2
  status: active   # since May
"""

CASES: list[tuple[str, str, Path, str]] = [
    ("added under the name", TWO, (0,), TWO.replace("first\n", "first\n  status: paused\n")),
    ("replaced, comment kept", TWO, (1,), TWO.replace("active ", "paused ")),
    ("alone, no end of line", "rule_id: a", (), "rule_id: a\nstatus: paused\n"),
    ("other line ends", "rule_id: a\r\nversion: 1\r\n", (), "rule_id: a\r\nstatus: paused\r\nversion: 1\r\n"),
    ("json", '{"rule_id": "a", "version": 1}', (), '{"rule_id": "a", "status": "paused", "version": 1}'),
    ("json, replaced", '[{"status":"draft","rule_id":"a"}]', (0,), '[{"status":"paused","rule_id":"a"}]'),
    ("in braces", "- {rule_id: a, version: 1}\n", (0,), "- {rule_id: a, status: paused, version: 1}\n"),
    ("second document", "rule_id: a\n---\nrule_id: b\n", (1,), "rule_id: a\n---\nrule_id: b\nstatus: paused\n"),
    ("quoted", "rule_id: 'a'\nstatus: \"active\"\n", (), "rule_id: 'a'\nstatus: \"paused\"\n"),
]


@pytest.mark.parametrize(("text", "path", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_only_the_status_changes(text: str, path: Path, expected: str) -> None:
    assert with_status(text, "r.yaml", path, "paused") == expected


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ('{"rule_id":\n "a"}', ()),
        ("- &a {rule_id: a, status: active}\n- *a\n", (0,)),
        ("rule_id: a\nstatus:\n  active\n", ()),
    ],
)
def test_a_layout_it_does_not_know_is_left_to_a_person(text: str, path: Path) -> None:
    with pytest.raises(PermanentError, match=r"r\.yaml:\d: found a layout that is not edited here; set status: paused"):
        with_status(text, "r.yaml", path, "paused")


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        (TWO, (0,), TWO.replace("first\n", "first\n  share: 25%\n")),
        ("rule_id: a\nshare: 1.5 %  # so far\n", (), "rule_id: a\nshare: 25%  # so far\n"),
        ('{"rule_id": "a", "share": "1%"}', (), '{"rule_id": "a", "share": "25%"}'),
        ("- {rule_id: a, version: 1}\n", (0,), "- {rule_id: a, share: 25%, version: 1}\n"),
    ],
)
def test_only_the_share_changes(text: str, path: Path, expected: str) -> None:
    assert with_share(text, "r.yaml", path, "25%") == expected
