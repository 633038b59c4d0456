"""Variants over many recorded calls: chosen, measured in the background, shown and judged."""
