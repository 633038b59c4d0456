"""Foreign text as safe markup, and the parts of addresses."""
