"""Projection to text. Views never read, write or ask anything; what they are given is all they know."""
