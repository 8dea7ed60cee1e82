"""A pipeline as a query of Spark, and the hops as its tasks."""
