"""Runs and calls as one self-contained HTML file, and the check that such a file is unchanged."""
