"""The application: performs what the core decides. Knows ports only."""
