"""Lists the content of the reference of the Python library; mkdocstrings writes signatures and docstrings.

``python -m tools.docs.python_api``
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import crossline
import crossline.client
import crossline.testing

_HEAD = """\
# Python API

What programs may import, from its docstrings. [library.md](library.md) and [client.md](client.md) show it at work.
"""
_MODULES = (
    ("crossline", crossline.__all__),
    ("crossline.testing", crossline.testing.__all__),
    ("crossline.client", crossline.client.__all__),
)


def page() -> str:
    """The whole page, as mkdocstrings reads it."""
    return "\n".join([_HEAD, *(line for module, names in _MODULES for line in _section(module, names))])


def _section(module: str, names: list[str]) -> Iterator[str]:
    yield f"## {module}\n"
    yield from (f"::: {module}.{name}\n" for name in sorted(names, key=str.lower) if not name.startswith("__"))


if __name__ == "__main__":
    sys.stdout.write(page())
