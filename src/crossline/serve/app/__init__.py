"""The API as it listens: hot routes, the rest of the routes over this pipeline's parts, the server."""
