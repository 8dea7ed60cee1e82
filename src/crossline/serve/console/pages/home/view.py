"""``/``: the queue; where a person may not see it, or it is not there, the first page of the rail."""

from __future__ import annotations

from starlette.responses import Response

from crossline.serve.console.pages.page import Page, PageRoute
from crossline.serve.console.request import PageRequest, moved

FIRST = "/queue"


def view(asked: PageRequest) -> Response:
    """To that page."""
    seen = [each.path for each in asked.frame.seen_by(asked)]
    return moved(FIRST if FIRST in seen else (seen or ["/profile"])[0])


PAGE = Page("home", (PageRoute("GET", "/", view),))
