"""Which variants a project has, and a call under one of them."""
