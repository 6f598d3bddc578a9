"""The pure core: facts, the fold that gives state, and the policy. No clock, path, environment, logging or chance."""
