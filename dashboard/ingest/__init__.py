"""Imports recordings: files and uploads, records grouped by call, and the rows that are derived from them."""
