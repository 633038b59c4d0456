"""The pages of the built-in tools' definitions."""
