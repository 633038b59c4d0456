"""The Call page: both halves of one call, what links them and what was cut between them."""
