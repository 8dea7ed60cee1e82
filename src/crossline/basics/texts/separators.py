"""What a CSV header that lacks a name has instead: most often its fields are parted by something else than commas."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from crossline.basics.texts.problems import listed, nearest, shown

_OTHERS = {";": "semicolons", "\t": "tabs", "|": "bars"}


def header_text(names: Sequence[str], wanted: Collection[str], known: Collection[str] = ()) -> str:
    """``found columns a, b``, and what would help: ``names`` as they were parted by commas lack one of ``wanted``.

    ``known``: names that are meant as they stand.
    """
    line = ",".join(names)
    for separator, called in _OTHERS.items():
        parts = [each.strip().strip('"') for each in line.split(separator)]
        if len(parts) > 1 and set(wanted) & set(parts):
            return f"found fields {listed(parts)}, parted by {called}; write the file with commas between its fields"
    found = f"found fields {listed([shown(each).strip(chr(34)) for each in names])}"
    for each in wanted:
        near = nearest(each, set(names) - set(wanted) - set(known))
        if near is not None:
            return f"{found}; is {each} meant by {near.removeprefix('did you mean ')}"
    return found
