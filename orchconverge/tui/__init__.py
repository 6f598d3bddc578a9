"""The full-screen view, and what it shares with the views that print: a ledger that is followed."""
