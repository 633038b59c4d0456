"""Sign-in, projects and the roles of their members."""
