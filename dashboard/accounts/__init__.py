"""Who may see what: sign-in, sessions, projects, roles."""
