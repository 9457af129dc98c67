"""Functions of the user that see every commit before it is ratified, and may refuse it.

They are called after the rows are staged and checked, outside of any database transaction, once for
every attempt to ratify. Whatever one of them raises ends the transaction: nothing is committed and
what was staged is deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from lakeward.errors import InvalidInput, Refused
from lakeward.write.transaction.staged import StagedCommit

F = TypeVar("F", bound=Callable[[StagedCommit], object])


class Hooks:
    """The functions that a lake calls, in the order in which they were given."""

    def __init__(self) -> None:
        self._before_commit: tuple[Callable[[StagedCommit], object], ...] = ()

    def __bool__(self) -> bool:
        return bool(self._before_commit)

    def before_commit(self, function: F) -> F:
        """Call a function with each commit of this lake object before it is ratified.

        It gets a `StagedCommit` and refuses by raising; what it returns is ignored. It returns the
        function, so that it can be written above one.

        Args:
            function: Called by whichever thread commits, so several may call it at once.

        Raises:
            InvalidInput: It is no function.
        """
        if not callable(function):
            what = f"A hook must be a function of a staged commit, not {type(function).__name__}."
            raise InvalidInput(what, hint="Write lake.hooks.before_commit(fn).")
        self._before_commit = (*self._before_commit, function)
        return function

    def remove(self, function: Callable[[StagedCommit], object]) -> None:
        """Call a function no more; one that is not called is left alone."""
        self._before_commit = tuple(f for f in self._before_commit if f is not function)

    def run(self, staged: StagedCommit) -> None:
        """Call them all.

        Raises:
            Refused: One of them refused, or failed; then its own error is the cause.
        """
        for function in self._before_commit:
            try:
                function(staged)
            except Refused as error:
                facts = {"transaction_id": staged.transaction_id, **error.facts}
                hint = error.hint or "Nothing was committed."
                raise Refused(error.what, hint=hint, **facts) from error
            except Exception as error:
                name = getattr(function, "__qualname__", repr(function))
                what = f"Hook {name} failed before the commit: {type(error).__name__}: {error}"
                hint = "Nothing was committed."
                raise Refused(
                    what, hint=hint, transaction_id=staged.transaction_id, hook=name
                ) from error
