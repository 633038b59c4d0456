"""Text and JSON values: previews, tokens, pointers, outlines, credentials."""
