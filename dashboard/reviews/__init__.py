"""Blind reviews of pairs of receipts, and the verdicts of reviewers."""
