from __future__ import annotations

import ctypes
import subprocess
import sys

import pytest

MEGABYTES = 15
PAGES_FEW = 64
# Blocks as a batch takes them: Arrow's, numpy's, several at once, freed in another order than they were taken in.
PROGRAM = f"""
import resource
import numpy as np
import pyarrow as pa
from crossline.runtime.machine.freed_memory import keep_freed_memory

def batch():
    size = {MEGABYTES} << 20
    text, cells = np.full(size, 1, np.uint8), np.full(size, 2, np.uint8)
    body = pa.allocate_buffer(size)
    np.frombuffer(body, np.uint8)[:] = 3
    del text
    again = bytes(size // 2)
    del cells, body, again

def pages():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

keep_freed_memory()
for _ in range(50):
    batch()
before = pages()
for _ in range(5):
    batch()
print(pages() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="a C library without mallopt")
def test_a_process_takes_the_pages_again_that_it_has_freed() -> None:
    found = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    assert int(found.stdout) < PAGES_FEW


# A thread for each batch and sink, as the driver has them.
THREADS = """
import threading

def each():
    for _ in range(3):
        thread = threading.Thread(target=batch)
        thread.start()
        thread.join()
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="a C library without mallopt")
def test_threads_take_the_pages_of_threads_before_them() -> None:
    program = PROGRAM.replace("    batch()\n", "    each()\n").replace("def pages():", f"{THREADS}\ndef pages():")
    program = program.replace("keep_freed_memory()", "keep_freed_memory(arenas_max=2)")
    found = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert int(found.stdout) < 15 * PAGES_FEW
