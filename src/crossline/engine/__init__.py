"""The Spark engine: the only place that imports pyspark."""
