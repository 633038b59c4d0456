"""Counterfoil: both halves of every tool call, side by side."""
