"""``/v1/rules:form``: a text as fields, and back."""

from __future__ import annotations

from tests.unit.serve.http.kit import Client, detail

RULE = """\
rule_id: huge
version: 1  # the first
rule_type: threshold
source_topic: payments
conditions:
  - {field: amount_cents, operator: ">", value: 1000000}
hold: {odd: yes}
"""


def test_a_text_is_reported_as_fields_and_changes_are_written_into_it(writing: Client) -> None:
    body = writing.post("/v1/rules:form", json={"text": RULE}).json()
    fields = {each["name"]: each for section in body["sections"] for each in section["fields"]}
    fields |= {each["name"]: each for section in body["sections"] for row in section["rows"] for each in row["fields"]}
    assert (body["text"], body["left"], body["why_none"]) == (RULE, [], "")
    assert (fields["hold"]["value"], fields["hold"]["line"]) == ("{odd: yes}", 7)  # as it is written
    assert fields["conditions/0/value"]["value"] == "1000000"
    assert "amount_cents" in fields["conditions/0/field"]["options"]
    changes = {"version": "2", "conditions/0/value": "5", "no_such_field": "x"}
    after = writing.post("/v1/rules:form", json={"text": RULE, "changes": changes}).json()
    assert after["text"] == RULE.replace("version: 1", "version: 2").replace("1000000", "5")


def test_what_cannot_be_changed_is_refused(writing: Client) -> None:
    text = "rule_id: &a huge\nversion: 1\nrule_type: threshold\nowner: *a\n"
    answer = writing.post("/v1/rules:form", json={"text": text, "changes": {"rule_id": "other"}})
    assert "found rule_id in a layout that is not edited here" in detail(answer, 400)
    several = writing.post("/v1/rules:form", json={"text": "- rule_id: a\n- rule_id: b\n"}).json()
    assert (several["sections"], several["why_none"]) == (
        [],
        "the text has 2 values; the form shows one rule, which is a mapping",
    )
