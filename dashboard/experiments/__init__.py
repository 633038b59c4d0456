"""Experiments: one call under other renderers, variants over many recorded calls, their measures and pages."""
