"""Alignment: which characters of a recorded receipt come from which field of the recorded result."""
