"""``/components``: all components beside each other, for who builds pages; in the open demonstration alone."""

from __future__ import annotations

from crossline.serve.console.layout.shell import Toast
from crossline.serve.console.pages.components.context import ComponentsPage
from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest

_DIFF = (
    (" ", "when: >"),
    ("-", "  senders >= 6 and received >= 150000"),
    ("+", "  senders >= 5 and received >= 150000"),
    (" ", "  and amount_cents > 3 * usual"),
)
_COLUMNS = (("Mark", False), ("Time", False), ("Sender", False), ("Amount, EUR", True))
_RECORDS = (
    ("●", "13:51:02.118", "a0002793", "412.00"),
    ("●", "13:58:40.900", "a0010897", "388.50"),
    ("◆", "14:04:16.550", "a0011745", "225.00"),
)
_PROOF = (
    ("Rule", "beneficiary_many_senders, version 4", "3c9ef0aa91d471"),
    ("Data", "payments of 25 Aug to 22 Nov", "a80d11aa9100f2"),
    ("Result", "8 to 12 alerts a day", "5be1cc0177aa0c"),
)


def view(asked: PageRequest) -> ComponentsPage:
    """The sheet."""
    return ComponentsPage(
        shell=asked.shell("Components and states"),
        diff=_DIFF,
        columns=_COLUMNS,
        records=_RECORDS,
        points=(0.2, 0.3, 0.25, 0.5, 0.45, 0.6, 0.9),
        proof=_PROOF,
        toast=Toast("12 cases resolved as fraud.", "/components"),
    )


PAGE = Page(
    "components", (PageRoute("GET", "/components", view),), label="Components", group="Operations", only_open=True
)
