"""Read replicas: processes that follow a pipeline's state and judge records on it, changing nothing that counts."""
