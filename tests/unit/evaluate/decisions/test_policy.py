"""The text of refusals is product: for each bad file in tests/golden/policies the whole report, word for word.

To take a change up, delete the .txt files and run the test once; then read what it wrote.
"""

from pathlib import Path

import pytest

from crossline.basics.texts.problems import RefusedError
from crossline.rules.policy.policy import Deciding, load_policy

FOLDER = Path(__file__).parents[3] / "golden" / "policies"

POLICY = """\
schema_version: 1
version: 2
score: max
decide:
  - {when: rules.card_burst and tags.web > 1, decision: block}
  - {when: "rules.a.b or not rules.card_burst", decision: review}
bands: [{from: 80, decision: block}, {from: 40, decision: review}]
"""


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_report_of(path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        load_policy(path.read_text(), path.name)
    report = str(caught.value) + "\n"
    expected = path.with_suffix(".txt")
    if not expected.exists():
        expected.write_text(report)
        pytest.fail(f"wrote {expected}; read it, and run again")
    assert report == expected.read_text()


def test_what_is_left_out_has_the_documented_default() -> None:
    policy = load_policy("schema_version: 1\nversion: 7", "policy.yaml")
    assert (policy.version, policy.decide, policy.score, policy.bands) == (7, [], "sum", [])


def test_it_travels_and_is_the_same() -> None:
    policy = load_policy(POLICY, "policy.yaml")
    again = Deciding.from_json(Deciding(policy, every=True, sink_topic="t").to_json())
    assert (again.policy, again.every, again.sink_topic) == (policy, True, "t")
    assert again.policy.digest == policy.digest


def test_another_content_has_another_digest_and_another_spacing_has_not() -> None:
    policy = load_policy(POLICY, "policy.yaml")
    assert load_policy(POLICY.replace(": ", ":  "), "policy.yaml").digest == policy.digest
    assert load_policy(POLICY.replace("from: 80", "from: 81"), "policy.yaml").digest != policy.digest


def test_rules_that_are_not_there_are_named() -> None:
    assert load_policy(POLICY, "policy.yaml").unknown_rules(["card_burst", "other"]) == ["a.b"]
