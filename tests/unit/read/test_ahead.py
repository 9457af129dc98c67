"""Work is done ahead of the consumer, in order, while a large piece is done as well."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from lakeward.read.ahead import in_order

_LARGE = 64 * 2**20


def test_results_come_in_the_order_of_the_pieces() -> None:
    sizes = [1, _LARGE, 1, 1, _LARGE, _LARGE, 1]

    def work(piece: int) -> Iterator[tuple[int, int]]:
        yield from ((piece, n) for n in range(3))

    found = list(in_order(range(len(sizes)), work, lambda piece: sizes[piece]))

    assert found == [(piece, n) for piece in range(len(sizes)) for n in range(3)]


def test_small_pieces_are_done_while_the_consumer_takes_a_large_one() -> None:
    done = threading.Event()

    def work(piece: int) -> Iterator[bool]:
        if piece == 1:
            done.set()
            yield True
        else:
            yield done.wait(10)

    assert list(in_order(range(2), work, lambda piece: 1 if piece else _LARGE)) == [True, True]


def test_a_large_piece_is_not_begun_before_its_turn() -> None:
    begun: list[int] = []

    def work(piece: int) -> Iterator[int]:
        begun.append(piece)
        yield piece

    rows = in_order(range(3), work, lambda _: _LARGE)
    assert next(rows) == 0
    assert begun == [0]
    assert list(rows) == [1, 2]
