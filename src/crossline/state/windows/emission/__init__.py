"""Emission: whether a figure meets a line, whether the line emits there, and what is noted of that.

Written once for all kernels. A kernel's layout declares the memory words that ``words`` lists, under the same names. An
``EmissionMemory`` describes where the kernel keeps the state of each line and key. ``bounds.bounds_in``,
``decision.emission_functions`` and ``hits.hits_in`` return compiled functions over that memory. ``columns`` has the
functions over whole columns outside of compiled code; ``carry`` moves the state of lines to another plan.
"""
