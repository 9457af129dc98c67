"""Does work ahead in threads, and returns the results in order.

Small pieces are done ahead, as many as fit into a bounded number of bytes. A large piece is done in
the consumer's thread when its turn comes, so that no more of it is in memory than the consumer
takes.
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
    """Yield the results of all pieces, in their order."""
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
                    future = pool.submit(_all, work, piece) if count <= _SMALL else None
                    held += count
                    waiting.append((piece, count, future))
                if not waiting:
                    return
                piece, count, future = waiting.popleft()
                yield from work(piece) if future is None else future.result()
                held -= count
        finally:
            for _, _, future in waiting:
                if future is not None:
                    future.cancel()


def _all(work: Callable[[_In], Iterator[_Out]], piece: _In) -> list[_Out]:
    return list(work(piece))
