"""Background work beside the server."""
