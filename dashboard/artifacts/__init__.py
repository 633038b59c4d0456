"""Stored output: kept by content, looked into by windows, searched and served."""
