"""The page of who may what has the tables of the code."""

from __future__ import annotations

import re

from crossline.serve.access.roles import DECIDE, ROLES, ROUTES, SCOPES

from .pages import ROOT

PAGE = (ROOT / "docs" / "access.md").read_text()


def rows(*columns: str) -> dict[str, str]:
    """The table of those columns: its first cells, and what stands beside."""
    table = PAGE.split(f"| {' | '.join(columns)} |\n|---|---|\n")[1].split("\n\n")[0]
    found = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in table.splitlines()]
    return {first.strip("| `"): second.strip("| ") for first, second in found}


def test_scopes_and_roles_are_those_of_the_code() -> None:
    shown = rows("scope", "lets its holder")
    assert shown.pop("decide:STREAM")
    assert shown == SCOPES
    found = {
        role: set(re.findall(r"`([a-z:*]+)`", text.partition(";")[0])) for role, text in rows("role", "scopes").items()
    }
    assert found == {role: set(scopes) for role, scopes in ROLES.items()}


def test_each_route_needs_what_the_page_says() -> None:
    body = rows("method and address", "needs")
    assert list(body) == [f"{method} {template.replace(':path', '')}" for method, template in ROUTES]
    for need, text in zip(ROUTES.values(), body.values(), strict=True):
        scopes = tuple(each.replace("decide:STREAM", DECIDE) for each in re.findall(r"`([A-Za-z:]+)`", text))
        assert (scopes, text == "nobody") == (need.scopes, need.public)
