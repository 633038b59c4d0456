"""Intake of records and traces that programs send over HTTP, and reading for programs."""
