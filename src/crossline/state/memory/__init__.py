"""The kernel's memory: its declaration, and what reaches into it."""
