"""Links of the repository's pages, as the site has them."""

from __future__ import annotations

import pytest
from tools.docs.links import anchors, for_site, slug, targets

PLACES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md"}
SITE = {
    **dict.fromkeys(("index.md", "contributing.md", "semantics.md", "pictures/a.png", "pictures/a-dark.png"), ""),
    "design/panes.md": "Panes",
}


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("Order", "order"),
        ("`security`, in a source or sink of kind `kafka`", "security-in-a-source-or-sink-of-kind-kafka"),
        ("The kernel's memory", "the-kernels-memory"),
        ("GET /v1/alerts/{alert_id}", "get-v1alertsalert_id"),
        ("What is there, and what is not yet", "what-is-there-and-what-is-not-yet"),
        ("two  spaces - and a dash", "two--spaces---and-a-dash"),
    ],
)
def test_an_anchor_is_made_of_a_heading(heading: str, anchor: str) -> None:
    assert slug(heading) == anchor


def test_the_anchors_of_a_page() -> None:
    text = "# One\n## Two [words](x.md)\n```sh\n# no heading\n```\n### One\n"
    assert anchors(text) == {"one", "two-words", "one-1"}


def test_links_in_code_are_none() -> None:
    assert list(targets("[a](b.md) and ![a picture](c.png)\n```\n[x](y.md)\n```\n[`[d]` e](f.md#g)")) == [
        "b.md",
        "f.md#g",
    ]


@pytest.mark.parametrize(
    ("source", "text", "site"),
    [
        ("README.md", "[s](docs/semantics.md#order)", "[s](semantics.md#order)"),
        ("README.md", "[c](CONTRIBUTING.md)", "[c](contributing.md)"),
        (
            "README.md",
            "see [examples](examples/) and [`deploy/watch`](deploy/watch).",
            "see examples and `deploy/watch`.",
        ),
        ("docs/semantics.md", "[r](../README.md#two-commands)", "[r](index.md#two-commands)"),
        ("docs/semantics.md", "[p](design/panes.md) [here](#order)", "[p](design/panes.md) [here](#order)"),
        (
            "docs/design/panes.md",
            "[s](../semantics.md), [r](../../README.md)",
            "[s](../semantics.md), [r](../index.md)",
        ),
        ("docs/semantics.md", "see [panes.md](design/panes.md#one)", "see [Panes](design/panes.md#one)"),
        ("docs/semantics.md", "[k](https://keep.example/x)", "[k](https://keep.example/x)"),
        ("docs/semantics.md", "```md\n[r](../README.md)\n```\n", "```md\n[r](../README.md)\n```\n"),
        ("docs/semantics.md", "[two\nlines](../README.md)", "[two\nlines](index.md)"),
    ],
)
def test_a_link_leads_to_the_page_of_the_site(source: str, text: str, site: str) -> None:
    assert for_site(text, source, PLACES, SITE) == site


def test_a_picture_is_one_for_each_scheme() -> None:
    text = """<picture>
  <source media="(prefers-color-scheme: dark)" srcset="docs/pictures/a-dark.png">
  <img alt="A queue" src="docs/pictures/a.png">
</picture>"""
    assert for_site(text, "README.md", PLACES, SITE).split("\n") == [
        "![A queue](pictures/a.png#only-light)",
        "![A queue](pictures/a-dark.png#only-dark)",
    ]
