"""The tables: columns, files, commits, conditions on rows."""
