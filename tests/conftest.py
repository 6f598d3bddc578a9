"""What every test may rely on, however pytest itself was started."""

from __future__ import annotations

import signal

# A shell without job control starts what runs in its background with Control + C ignored, and that is inherited: the
# tests that send one, and the processes they start, have to see what a person's terminal gives.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
