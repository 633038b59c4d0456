"""Blind verdicts on pairs of receipts."""
