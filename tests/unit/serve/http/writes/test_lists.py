"""``/v1/lists``: entries are added, changed and removed in the file, and no change is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.serve.http.kit import Client, detail

from crossline.rule_registry.content import FileContent
from crossline.rule_registry.list_file import read_list

UNTIL = "2027-01-01T00:00:00.000Z"


def entries(folder: Path, name: str = "accounts.yaml") -> dict[object, int]:
    return dict(read_list(name, FileContent((folder / "lists" / name).read_bytes())))


def test_an_entry_comes_changes_and_goes(writing: Client, folder: Path) -> None:
    at = "/v1/lists/accounts/a5"
    made = writing.put(at, json={"until": UNTIL})
    assert (made.status_code, made.json()) == (201, {"list": "accounts", "value": "a5", "until": UNTIL})
    assert entries(folder)["a5"] == 1_798_761_600_000
    assert writing.get(at).headers["etag"] == made.headers["etag"]
    assert "found no If-Match" in detail(writing.put(at, json={}), 428)
    assert "was changed meanwhile" in detail(writing.put(at, json={}, headers={"If-Match": '"old"'}), 412)
    changed = writing.put(at, json={}, headers={"If-Match": made.headers["etag"]})
    assert (changed.status_code, changed.json()["until"]) == (200, None)
    assert "found no If-Match" in detail(writing.delete(at), 428)
    assert "was changed meanwhile" in detail(writing.delete(at, headers={"If-Match": made.headers["etag"]}), 412)
    gone = writing.delete(at, headers={"If-Match": changed.headers["etag"]})
    assert gone.json()["removed"] is True
    assert (folder / "lists/accounts.yaml").read_text() == (
        "# watched\n- a1\n- {value: a9, until: 2026-01-04T00:00:00Z}\n- 7\n"
    )
    assert "found no entry" in detail(writing.get(at), 404)
    assert "found no entry" in detail(writing.delete(at, headers={"If-Match": "*"}), 404)
    assert "there is no entry" in detail(writing.put(at, json={}, headers={"If-Match": "*"}), 412)
    reported = writing.get("/v1/lists").json()["items"]
    assert reported == [{"list": "accounts", "entries": 3}, {"list": "cards", "entries": 1}]


def test_values_are_what_they_are(writing: Client, folder: Path) -> None:
    assert writing.put("/v1/lists/accounts/42", json={"value": 42}).status_code == 201
    assert writing.put("/v1/lists/accounts/true", json={"value": True}).status_code == 201
    assert writing.put("/v1/lists/accounts/https://x.example/%3Fa=b", json={}).status_code == 201
    assert {42, True, "https://x.example/?a=b"} <= set(entries(folder))
    assert "as the address has it" in detail(writing.put("/v1/lists/accounts/a", json={"value": "b"}), 422)
    for value in ('": x', "- &a *a", "{{7*7}}", "!!python/object:os.system", "#c", "' OR 1=1 --", "a: b", "\u00e4"):
        assert writing.put(f"/v1/lists/accounts/{value.replace('#', '%23')}", json={}).status_code == 201, value
        assert value in entries(folder)
        assert writing.delete(f"/v1/lists/accounts/{value.replace('#', '%23')}", headers={"If-Match": "*"}).is_success


@pytest.mark.parametrize(
    ("path", "body", "status", "text"),
    [
        ("acounts/a", {}, 404, "did you mean accounts?"),
        ("..%2Frules%2Fspending/a", {}, 404, "found no list"),
        ("accounts/a%00b", {}, 400, "found a NUL"),
        ("accounts/a%0Ab", {}, 404, "nothing at this address"),
        ("accounts/a%E2%80%AEb", {}, 422, "printable characters"),
        ("accounts/a", {"until": "soon"}, 422, "an instant such as"),
        ("accounts/a", {"until": "2020-01-01T00:00:00Z"}, 422, "an instant to come"),
        ("accounts/a", {"til": "x"}, 422, "/til"),
        ("accounts/a", [], 422, ": found []"),
        ("cards/c9", {"until": UNTIL}, 409, "expected cards.yaml for an entry with an end"),
        ("accounts/" + "x" * 1001, {}, 422, "at most 1000"),
    ],
)
def test_what_cannot_be_put(writing: Client, folder: Path, path: str, body: object, status: int, text: str) -> None:
    before = {each: each.read_bytes() for each in (folder / "lists").glob("[a-z]*")}
    assert text in detail(writing.put(f"/v1/lists/{path}", json=body), status)
    assert {each: each.read_bytes() for each in (folder / "lists").glob("[a-z]*")} == before


def test_a_body_that_is_no_json(writing: Client) -> None:
    answer = writing.put("/v1/lists/accounts/a", content=b'{"until":', headers={"content-type": "application/json"})
    assert "no JSON" in detail(answer, 422)
    answer = writing.put(
        "/v1/lists/accounts/a", content=b'{"value": "\\ud800"}', headers={"content-type": "application/json"}
    )
    assert detail(answer, 422)
    answer = writing.put("/v1/lists/accounts/a", content=b"[" * 100_000, headers={"content-type": "application/json"})
    assert answer.status_code in {400, 422}
