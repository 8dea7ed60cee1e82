"""Logs that records of the decision API are put into: files of JSON lines for a source of kind api, and topics."""
