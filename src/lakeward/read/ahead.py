"""Processes pieces of work ahead in threads, and yields the results in order.

Small pieces are processed ahead, up to a limit of bytes, also while a large piece is processed. A
large piece is processed in the consumer's thread when its turn comes, so that no more of it is in
memory than the consumer takes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

_In = TypeVar("_In")
_Out = TypeVar("_Out")
_THREADS: Final = 4
_SMALL: Final = 16 * 2**20
_AHEAD: Final = 32 * 2**20
_PIECES: Final = 16


def in_order(
    pieces: Iterable[_In], work: Callable[[_In], Iterator[_Out]], size: Callable[[_In], int]
) -> Iterator[_Out]:
    """Yield the results of `work` for all pieces, in order; `size` returns the bytes of a piece."""
    waiting: deque[tuple[_In, int, Future[list[_Out]] | None]] = deque()
    source = iter(pieces)
    held, is_over = 0, False
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="lakeward-ahead") as pool:
        try:
            while True:
                while not is_over and held <= _AHEAD and len(waiting) < _PIECES:
                    piece = next(source, None)
                    if piece is None:
                        is_over = True
                        break
                    count = size(piece)
                    future = None
                    if count <= _SMALL:
                        future = pool.submit(_all, work, piece)
                        held += count
                    waiting.append((piece, count, future))
                if not waiting:
                    return
                piece, count, future = waiting.popleft()
                if future is None:
                    yield from work(piece)
                else:
                    yield from future.result()
                    held -= count
        finally:
            for _, _, future in waiting:
                if future is not None:
                    future.cancel()


def _all(work: Callable[[_In], Iterator[_Out]], piece: _In) -> list[_Out]:
    return list(work(piece))
