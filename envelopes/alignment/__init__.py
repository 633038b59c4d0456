"""Where the characters of a recorded receipt come from."""
