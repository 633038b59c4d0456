"""Django's database backend for SQLite, which also opens a store on a read-only disk."""
