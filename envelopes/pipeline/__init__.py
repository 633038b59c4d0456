"""The two projections, their limits, and what compaction keeps."""
