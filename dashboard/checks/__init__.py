"""Whether receipts that were sent would be written alike today."""
