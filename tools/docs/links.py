"""Links as they stand in the repository, and as the site needs them."""

from __future__ import annotations

import os.path
import posixpath
import re
from collections.abc import Callable, Container, Iterator, Mapping

_FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"(?<!!)\[((?:[^\[\]`]|`[^`]*`)*)\]\(([^)\s]+)\)")
_PICTURE = re.compile(
    r"<picture>\s*<source [^>]*srcset=\"(?P<dark>[^\"]+)\">\s*<img alt=\"(?P<alt>[^\"]*)\" src=\"(?P<light>[^\"]+)\">"
    r"\s*</picture>"
)
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
    """What the links of a page lead to, as it stands there."""
    yield from (target for _, target in _LINK.findall(_FENCE.sub("", text)))


def for_site(text: str, source: str, places: Mapping[str, str], site: Container[str]) -> str:
    """A page of the repository as the site shows it.

    Args:
        text: Its Markdown.
        source: Its path in the repository.
        places: Where the site has files that do not lie in ``docs``: path in the repository to path in the site.
        site: Paths of all files of the site.

    Returns:
        The page with the site's links. A link to what the site has not is its text alone.
    """
    here = places.get(source, source.removeprefix("docs/"))

    def place(target: str) -> str | None:
        """The target's path from this page; None where the site has it not."""
        path, hash_, anchor = target.partition("#")
        if not path or "://" in target or target.startswith("mailto:"):
            return target
        whole = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        there = places.get(whole, whole.removeprefix("docs/") if whole.startswith("docs/") else None)
        if there is None or there not in site:
            return None
        return os.path.relpath(there, posixpath.dirname(here) or ".") + hash_ + anchor

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _rewritten(part, place) for part in parts)


def _rewritten(text: str, place: Callable[[str], str | None]) -> str:
    def link(match: re.Match[str]) -> str:
        target = place(match[2])
        return match[1] if target is None else f"[{match[1]}]({target})"

    def picture(match: re.Match[str]) -> str:
        """One for each scheme of the site, which may be another than the system's."""
        light, dark = place(match["light"]), place(match["dark"])
        return f"![{match['alt']}]({light}#only-light)\n![{match['alt']}]({dark}#only-dark)"

    return _LINK.sub(link, _PICTURE.sub(picture, text))
