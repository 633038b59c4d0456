"""The variants of a project, calls rendered under them, and fingerprints of sent receipts."""
