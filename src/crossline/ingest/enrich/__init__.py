"""Tables whose rows become fields of records, as of the records' ingest time."""
