"""Comparisons of variants over many recorded calls: their measures, summaries and pages."""
