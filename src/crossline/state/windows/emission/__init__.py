"""Emission: whether a figure meets a line, whether the line emits there, and what is noted of that.

Written once for all kernels. A kernel's layout declares the words that ``words`` names, by the same names, and a kernel
says with a ``LineMemory`` where it keeps what a line remembers of a key. In return it gets compiled functions over its
own memory: ``bounds.bounds_in``, ``decision.decisions_in``, ``hits.hits_in``. What is asked of whole columns, outside
of compiled code, stands in ``columns``, and what another plan takes over in ``carry``.
"""
