"""The lake: Iceberg tables with every record, alert and decision of a pipeline."""
