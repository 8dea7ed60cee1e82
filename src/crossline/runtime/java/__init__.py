"""What Spark needs on this machine: Java, jars, a session, and workers that are quick to start."""
