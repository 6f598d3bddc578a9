"""One case a fact: legality first, then the change. Importing the modules fills the table."""
