"""A small tree of SVG elements, and its text."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from html import escape

Number = int | float
_BANNED = frozenset({"style"})


@dataclass(frozen=True, slots=True)
class Element:
    """One element.

    Attributes:
        tag: Its name.
        attributes: By name, in the order in which they are written; numbers to a tenth of a pixel.
        children: Elements and texts within it.
    """

    tag: str
    attributes: tuple[tuple[str, str], ...] = ()
    children: tuple[Element | str, ...] = ()

    def __html__(self) -> str:
        """The element as markup, which templates with autoescape take as it is: all text in it is escaped."""
        given = "".join(f' {name}="{escape(value)}"' for name, value in self.attributes)
        inner = "".join(each.__html__() if isinstance(each, Element) else escape(each) for each in self.children)
        return f"<{self.tag}{given}>{inner}</{self.tag}>" if inner else f"<{self.tag}{given}/>"

    def attribute(self, name: str) -> str | None:
        """One attribute; None if it has none of that name."""
        return dict(self.attributes).get(name)

    def find(self, kind: str) -> list[Element]:
        """All elements within it of this class, in their order."""
        inner = [each for child in self.children if isinstance(child, Element) for each in child.find(kind)]
        mine = (self.attribute("class") or "").split()
        return [self, *inner] if kind in mine else inner

    def text(self) -> str:
        """All text within it."""
        return "".join(each if isinstance(each, str) else each.text() for each in self.children)


def element(tag: str, children: Iterable[Element | str] = (), **attributes: str | Number | None) -> Element:
    """An element; ``class_`` is ``class``, and an underscore in a name a hyphen. What is None is left out.

    Raises ValueError for an attribute that the content security policy bans.
    """
    found = []
    for name, value in attributes.items():
        written = "class" if name == "class_" else "viewBox" if name == "viewBox" else name.replace("_", "-")
        if written in _BANNED or written.startswith("on"):
            raise ValueError(f"{written} is no attribute of a chart: use a class")
        if value is not None:
            found.append((written, value if isinstance(value, str) else px(value)))
    return Element(tag, tuple(found), tuple(children))


def px(value: Number) -> str:
    """A length to a tenth of a pixel: ``12``, ``12.5``."""
    return f"{round(value, 1):g}" if abs(value) < 1e5 else f"{round(value)}"


def text(x: Number, y: Number, message: str, kind: str | None = None, anchor: str | None = None) -> Element:
    """A text whose baseline is at y; ``anchor``: ``start``, ``middle`` or ``end``."""
    return element("text", [message], x=x, y=y, class_=kind, text_anchor=anchor if anchor != "start" else None)


def line(kind: str, *points: tuple[Number, Number]) -> Element:
    """A polyline."""
    (x, y), *others = points
    return element("path", class_=kind, d=f"M{px(x)} {px(y)}" + "".join(f"L{px(a)} {px(b)}" for a, b in others))


def rect(kind: str, x: Number, y: Number, width: Number, height: Number) -> Element:
    """A rectangle; never of a negative size."""
    return element("rect", class_=kind, x=x, y=y, width=max(0.0, width), height=max(0.0, height))


def drawing(width: int, height: int, name: str, parts: Iterable[Element]) -> Element:
    """The whole drawing: of the given width in pixels, with an accessible name."""
    return element(
        "svg",
        parts,
        class_="ch",
        width=width,
        height=height,
        viewBox=f"0 0 {width} {height}",
        role="img",
        aria_label=name,
    )
