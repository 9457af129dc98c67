"""Who waits for whom, and the circle that all who are in it see alike."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from lakeward.model.locks import Claim, Claims, LockMode, victim

READ, WRITE = LockMode.READ, LockMode.WRITE


def claim(who: str, table: int, mode: LockMode = WRITE, *, held: bool, since: int = 0) -> Claim:
    return Claim(table, f"t{table}", mode, held, who, "ada", "host:1", since, ord(who[0]), 10)


def holds(who: str, table: int, mode: LockMode = WRITE) -> Claim:
    return claim(who, table, mode, held=True)


def wants(who: str, table: int, mode: LockMode = WRITE, since: int = 1) -> Claim:
    return claim(who, table, mode, held=False, since=since)


def names(found: list[Claim]) -> list[str]:
    return [c.transaction_id for c in found]


def test_who_asked_before_comes_first_and_who_asked_later_is_in_nobodys_way() -> None:
    claims = Claims((holds("a", 1),), (wants("b", 1, since=5), wants("c", 1, since=7)))
    assert names(claims.blocking(wants("d", 1, since=6))) == ["a", "b"]


def test_readers_who_wait_are_not_in_each_others_way() -> None:
    claims = Claims((), (wants("b", 1, READ),))
    assert claims.blocking(wants("c", 1, READ, since=2)) == []
    assert names(claims.blocking(wants("c", 1, WRITE, since=2))) == ["b"]


def test_a_holder_waits_for_holders_and_not_for_the_queue() -> None:
    claims = Claims((holds("a", 1, READ), holds("b", 1, READ)), (wants("c", 1),))
    assert names(claims.blocking(wants("a", 1, WRITE, since=9))) == ["b"]


def test_a_chain_is_no_circle() -> None:
    claims = Claims((holds("a", 1), holds("b", 2)), (wants("b", 1), wants("c", 2)))
    assert [claims.deadlock(who) for who in "abc"] == [(), (), ()]


def test_all_who_wait_in_a_circle_see_it_and_the_youngest_gives_way() -> None:
    held = tuple(holds(who, table) for table, who in enumerate("abc"))
    claims = Claims(held, (wants("a", 1), wants("b", 2), wants("c", 0)))
    for who in "abc":
        circle = claims.deadlock(who)
        assert {w.transaction_id for w, _ in circle} == set("abc")
        assert victim(circle) == "c"
        for (wait, other), (following, _) in zip(circle, circle[1:] + circle[:1], strict=True):
            assert other.transaction_id == following.transaction_id
            assert other.table_id == wait.table_id


def test_who_waits_for_a_circle_is_not_in_it() -> None:
    held = (holds("a", 1), holds("b", 2))
    claims = Claims(held, (wants("a", 2), wants("b", 1), wants("z", 1, since=9)))
    assert claims.deadlock("z") == ()
    assert victim(claims.deadlock("a")) == "b"


def test_a_circle_elsewhere_hides_nobody_elses() -> None:
    held = (holds("a", 1), holds("b", 2), holds("c", 3), holds("d", 4))
    claims = Claims(held, (wants("a", 2), wants("b", 1), wants("c", 4), wants("d", 3)))
    assert victim(claims.deadlock("a")) == "b"
    assert victim(claims.deadlock("c")) == "d"


def test_a_place_in_the_queue_can_close_a_circle() -> None:
    """A reader stands behind a writer, who waits for a reader who waits for the first one."""
    held = (holds("a", 1, READ), holds("c", 2))
    claims = Claims(held, (wants("b", 1), wants("c", 1, READ, since=2), wants("a", 2)))
    assert {w.transaction_id for w, _ in claims.deadlock("a")} == set("abc")


_MODES = st.sampled_from(LockMode)
_PLACES = st.tuples(st.sampled_from("abcdef"), st.integers(1, 4))


@given(
    st.dictionaries(_PLACES, _MODES, max_size=8),
    st.dictionaries(_PLACES, st.tuples(_MODES, st.integers(0, 9)), max_size=8),
)
def test_a_circle_is_found_exactly_by_those_who_wait_for_themselves(
    held: dict[tuple[str, int], LockMode], waiting: dict[tuple[str, int], tuple[LockMode, int]]
) -> None:
    claims = Claims(
        tuple(holds(who, table, mode) for (who, table), mode in held.items()),
        tuple(wants(who, table, *rest) for (who, table), rest in waiting.items()),
    )
    waits = {
        (w.transaction_id, o.transaction_id) for w in claims.waiting for o in claims.blocking(w)
    }
    for _ in range(6):
        waits |= {(a, d) for a, b in waits for c, d in waits if b == c}
    for who in "abcdef":
        circle = claims.deadlock(who)
        assert bool(circle) == ((who, who) in waits)
        if circle:
            loser = victim(circle)
            assert victim(claims.deadlock(loser)) == loser
