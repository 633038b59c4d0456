"""The operator documentation: Markdown files and what renders them."""
