"""The process of a command: how it begins, what it may do to itself, how it ends."""
