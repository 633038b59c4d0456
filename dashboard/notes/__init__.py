"""Annotations of runs and calls: notes, tags, assignments, review marks and review queues."""
