"""Checks whether sent receipts and pinned comparisons would be rendered alike today."""
