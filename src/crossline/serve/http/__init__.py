"""The API as HTTP: routes, problems, and the server."""
