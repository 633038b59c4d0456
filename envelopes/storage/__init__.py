"""Content of any size: stored by hash, read by windows, searched in bounded time."""
