"""Do many minds at one target pay? Scripted minds on real git, all strategies with one luck: `docs/convergence-benchmark.md`."""
