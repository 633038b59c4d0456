"""Rules that find what a receipt leaves out or garbles."""
