"""Whom the files that a command makes are open to: this account alone, unless somebody says otherwise."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from crossline.core.basics.errors import UsageError

VARIABLE = "CROSSLINE_UMASK"
OTHERS = 0o077
# What these write is a project's, for people to share: it gets the rights that all their files get.
SHARED = ("init", "rules")


def close_to_others(arguments: Sequence[str], environment: Mapping[str, str] = os.environ) -> None:
    """New files of this process and of all that it starts hold records: 0600 in folders 0700, or as told.

    What is there keeps its rights. Raises UsageError where what was told is no mask.
    """
    if arguments[:1] and arguments[0] in SHARED:
        return
    told = environment.get(VARIABLE)
    if told is None:
        os.umask(os.umask(OTHERS) | OTHERS)
    elif re.fullmatch("0?0[0-7][0-7]", told, re.ASCII):
        os.umask(int(told, 8))
    else:
        raise UsageError(
            f"{VARIABLE} is {told!r}; expected three octal digits, the first of them 0, that say what others may not: "
            "077 (nobody else reads what a run writes, as without it), 027 (its group does) or 022 (all do)"
        )
