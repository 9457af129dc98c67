"""Makes Ctrl-C end a command, with its exit code, wherever the command is at that moment.

Python ignores an exception in a finalizer or a callback of a library, and so a `KeyboardInterrupt`
that arrives there: the program would go on. It is raised again a moment later.

Python also remembers a `KeyboardInterrupt` that passed through the evaluation of a text, as in the
definition of a data class while a module is imported. `python -m` then ends by the signal, even if
the exception was handled.
"""

from __future__ import annotations

import signal
import sys
import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sys import UnraisableHookArgs

_DELAY: Final = 0.02
"""Seconds until an interrupt that was ignored comes again, when the finalizer has ended."""


def keep_interrupts() -> None:
    """Raise an ignored `KeyboardInterrupt` again, in the main thread, until it is handled."""
    before = sys.unraisablehook

    def hook(args: UnraisableHookArgs) -> None:
        if args.exc_type is not KeyboardInterrupt:
            before(args)
            return
        main = threading.main_thread().ident or 0
        # A signal to the thread itself also ends a system call that it waits in.
        again = threading.Timer(_DELAY, signal.pthread_kill, (main, signal.SIGINT))
        again.daemon = True
        again.start()

    sys.unraisablehook = hook


def forget_interrupt() -> None:
    """Let the process end with the program's exit code after a handled `KeyboardInterrupt`."""
    # Python forgets the interrupt when it evaluates the next text.
    eval("None")  # noqa: S307
