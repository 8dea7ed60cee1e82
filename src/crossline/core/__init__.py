"""The pure core: no Spark, no I/O, no clock."""
