"""The accessibility tree of a page, as the browser gives it to a screen reader: names, roles and levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from playwright.sync_api import Page

CONTROLS = frozenset(
    {
        *("button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton"),
        *("switch", "tab", "menuitem", "option", "DisclosureTriangle", "Date", "DateTime"),
    }
)
PICTURES = frozenset({"image", "img", "graphics-document"})
REGIONS = frozenset({"region", "navigation", "search", "complementary", "dialog"})  # a form without a name is none
LIVE = frozenset({"status", "alert", "log"})


@dataclass(frozen=True)
class AccessibleNode:
    """A node: what it is, what it is called, of what it is a part."""

    role: str
    name: str
    level: int | None
    within: tuple[str, ...]


def accessible_nodes(page: Page) -> list[AccessibleNode]:
    """All nodes of a page in the accessibility tree, in order."""
    session = page.context.new_cdp_session(page)
    nodes = session.send("Accessibility.getFullAXTree")["nodes"]
    session.detach()
    by_id = {each["nodeId"]: each for each in nodes}
    return list(_below(by_id, nodes[0], ()))


def _below(by_id: dict[str, Any], node: dict[str, Any], within: tuple[str, ...]) -> Iterator[AccessibleNode]:
    role = "" if node["ignored"] else str(node["role"]["value"])
    if role:
        name = " ".join(str(node.get("name", {}).get("value", "")).split())
        level = next((each["value"]["value"] for each in node.get("properties", ()) if each["name"] == "level"), None)
        yield AccessibleNode(role, name, level, within)
    for child in node.get("childIds", ()):
        if child in by_id:
            yield from _below(by_id, by_id[child], (*within, role) if role else within)


def accessibility_faults(page: Page) -> list[str]:
    """The faults of a page for users of a screen reader."""
    reported = accessible_nodes(page)
    assert any(each.role in CONTROLS for each in reported), "the tree came"
    named = CONTROLS | PICTURES | REGIONS | {"columnheader", "heading"}
    found = [
        f"{each.role} in {each.within[-3:]} has no name" for each in reported if each.role in named and not each.name
    ]
    levels = [each.level or 0 for each in reported if each.role == "heading"]
    steps = zip([0, *levels], levels, strict=False)
    found += [f"a heading of level {after} follows one of {before}" for before, after in steps if after > before + 1]
    found += [f"{count} main" for count in [sum(each.role == "main" for each in reported)] if count != 1]
    return found + _tables(reported)


def _tables(reported: list[AccessibleNode]) -> list[str]:
    """Tables without a header of their columns. Each node comes before what is in it."""
    found, headers = [], None
    for each in [*reported, AccessibleNode("table", "", None, ())]:
        if each.role == "table":
            if headers == 0:
                found.append("a table has no headers")
            headers = 0
        elif each.role == "columnheader" and headers is not None:
            headers += 1
    return found
