"""Figures of every record: into a table, of files, of a lake, of a pipeline that runs."""
