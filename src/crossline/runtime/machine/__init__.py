"""What is found on this machine, fetched for it or made on it: Java, jars, folders."""
