"""Who is next."""

from hypothesis import given
from hypothesis import strategies as st

from npda.serving.engine.line import Line, Waiting


def waiting(request: object, kind: object = "a", length: int = 100) -> Waiting:
    return Waiting(request, kind, length, 0.0)


def line_of(*items: Waiting, room: int = 16_000) -> Line:
    line = Line(room)
    for item in items:
        line.add(item)
    return line


def test_a_short_request_does_not_wait_for_a_long_one():
    long = [waiting("long") for _ in range(20)]
    short = waiting("short")
    line = line_of(*long, short)
    assert line.next(4) == [long[0], short, long[1], long[2]]
    assert line.next(4) == long[3:7]


def test_what_cannot_be_decoded_together_is_not():
    first, other, second, work = waiting(1), waiting(2, "b"), waiting(3), waiting(4, None)
    line = line_of(first, other, second, work, waiting(5, None))
    assert [line.next(8) for _ in range(3)] == [[first, second], [other], [work]]
    assert len(line) == 1


def test_lengths_suit_each_other_and_the_room():
    first = waiting(0, length=100)
    others = [waiting(number, length=length) for number, length in enumerate((500, 110, 90, 5_000), 1)]
    line = line_of(first, *others)
    assert line.next(3) == [first, others[1], others[2]]
    assert line_of(first, *others, room=1_000).next(8) == [first, others[1], others[2]]
    assert line_of(others[3], first, room=1_000).next(8) == [others[3]]  # too long for the room, and done all the same


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from(["a", "b", None]), st.integers(1, 3_000)), max_size=40),
    st.integers(1, 8),
)
def test_everybody_has_a_turn_once_and_the_first_does_not_wait(found, most):
    items = [waiting(*one) for one in found]
    line, done = line_of(*items), []
    while len(line):
        oldest = next(item for item in items if item not in done)
        batch = line.next(most)
        assert batch[0] is oldest or batch[0].request != oldest.request
        assert 1 <= len(batch) <= most
        assert len({item.kind for item in batch}) == 1
        done += batch
    assert sorted(map(id, done)) == sorted(map(id, items))


def test_who_has_gone_is_not_computed():
    gone, here = waiting(1), waiting(2)
    line = line_of(gone, here)
    line.remove(gone)
    line.remove(gone)
    assert line.next(8) == [here]
    assert line.next(8) == []
