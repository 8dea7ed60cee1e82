"""All that leans on private parts of Spark 4.1 and py4j: one door each, with its reason."""
