"""An allocator of blocks of a few sizes: what keys and panes hold beyond their rows."""

from __future__ import annotations

from typing import Any

from crossline.state.memory.access import jit, prefetch
from crossline.state.memory.fields import address, get, load, put, store
from crossline.state.panes import layout as at

# In units of 8 bytes; each a third or a half larger than the one before, as long as a key may want.
BLOCK_UNITS = sorted({size << k for k in range(28) for size in (1, 3)})
CLASSES = len(BLOCK_UNITS)


def class_for(units: int) -> int:
    """The least size of block that holds ``units``."""
    return next(k for k, size in enumerate(BLOCK_UNITS) if size >= units)


@jit
def block(h: int, handle: int) -> Any:
    """Address of a block."""
    return address(h, at.HEAP) + at.UNIT * handle


@jit
def units_of(h: int, size: int) -> Any:
    """Units of a block of size number ``size``."""
    return get(h, at.SIZES, size)


@jit
def fitting(h: int, units: int) -> Any:
    """The number of the least size that holds ``units``."""
    size = 0
    while get(h, at.SIZES, size) < units:
        size += 1
    return size


@jit
def take(h: int, size: int) -> Any:
    """A block of size number ``size``, of which nothing is known; there is room, see ``room``."""
    handle = get(h, at.FREE, size)
    if handle != 0:
        after = load(block(h, handle), at.NEXT_FREE)
        put(h, at.FREE, size, after)
        prefetch(block(h, after))  # whoever comes next wants it
        return handle
    handle = get(h, at.HEAP_TOP)
    put(h, at.HEAP_TOP, handle + get(h, at.SIZES, size))
    return handle


@jit
def give(h: int, handle: int, size: int) -> None:
    """Take a block back."""
    store(block(h, handle), at.NEXT_FREE, get(h, at.FREE, size))
    put(h, at.FREE, size, handle)


@jit
def room(h: int, units: int) -> Any:
    """Whether there are ``units`` that were never given out; if not, it is noted how many are wanted."""
    if get(h, at.HEAP_TOP) + units <= get(h, at.HEAP_ROOM):
        return True
    put(h, at.HEAP_NEED, units)
    return False
