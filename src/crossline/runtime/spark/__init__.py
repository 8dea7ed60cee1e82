"""A pipeline as a query of Spark, and the stages as its tasks."""
