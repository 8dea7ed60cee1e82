"""Links of the repository, and their form on the site."""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping

_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")
_PICTURE = re.compile(
    r"<picture>\s*<source [^>]*srcset=\"(?P<dark>[^\"]+)\">\s*<img alt=\"(?P<alt>[^\"]*)\" src=\"(?P<light>[^\"]+)\">"
    r"\s*</picture>"
)
_FILE_NAME = re.compile(r"[\w./-]+\.md")
_HEADING = re.compile(r"^#{1,6} (.+?)\s*$", re.MULTILINE)


def slug(heading: str, separator: str = "-") -> str:
    """The anchor of a heading, as repositories that are read in a browser make it.

    >>> slug("`rules` of kind `kafka`, in a file")
    'rules-of-kind-kafka-in-a-file'
    """
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", separator)


def anchors(text: str) -> set[str]:
    """The anchors of a page: of each heading, a second like one with ``-1``."""
    found: dict[str, int] = {}
    result = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        name = slug(_LINK.sub(r"\1", heading))
        result.add(f"{name}-{found[name]}" if name in found else name)
        found[name] = found.get(name, 0) + 1
    return result


def targets(text: str) -> Iterator[str]:
    """The targets of the links of a page, unchanged."""
    yield from (target for _, target in _LINK.findall(_FENCE.sub("", text)))


def for_site(text: str, source: str, places: Mapping[str, str], site: Mapping[str, str]) -> str:
    """A page of the repository as the site shows it.

    Args:
        text: Its Markdown.
        source: Its path in the repository.
        places: Where the site has files that do not lie in ``docs``: path in the repository to path in the site.
        site: Paths of all files of the site, with the titles of pages; of other files "".

    Returns:
        The page with the site's links. A link to what the site has not is its text alone. One whose text is the name of
        the page's file has the page's title.
    """
    here = places.get(source, source.removeprefix("docs/"))

    def place(target: str) -> tuple[str, str] | None:
        """The target's path from this page, and its title; None if the site does not have it."""
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return target, ""
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = places.get(whole, whole.removeprefix("docs/") if whole.startswith("docs/") else None)
        if there is None or there not in site:
            return None
        return os.path.relpath(there, posixpath.dirname(here) or ".") + hash_ + anchor, site[there]

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _rewritten(part, place) for part in parts)


def _rewritten(text: str, place: Callable[[str], tuple[str, str] | None]) -> str:
    def link(match: re.Match[str]) -> str:
        found = place(match[2])
        if found is None:
            return match[1]
        target, title = found
        return f"[{title if title and _FILE_NAME.fullmatch(match[1]) else match[1]}]({target})"

    def picture(match: re.Match[str]) -> str:
        """One for each scheme of the site, which may be another than the system's."""
        said, light, dark = match["alt"], place(match["light"]), place(match["dark"])
        shown = (("light", light), ("dark", dark))
        return "\n".join(f"![{said}]({each[0]}#only-{name})" for name, each in shown if each is not None)

    return _LINK.sub(link, _PICTURE.sub(picture, text))
