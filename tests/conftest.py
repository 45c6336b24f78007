from __future__ import annotations

import signal

from hypothesis import settings

# A test that is slow because the machine is busy has not failed.
settings.register_profile("driftless", deadline=None)
settings.load_profile("driftless")

# A shell starts what runs in its background with Ctrl-C ignored; the programs that tests interrupt would inherit it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
