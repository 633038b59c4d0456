"""Checks of sent receipts and pinned comparisons: would the same texts be rendered today?"""
