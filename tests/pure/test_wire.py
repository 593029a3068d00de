import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernelwright.sandbox.wire import (
    DTYPES,
    Reply,
    TensorLayout,
    WireError,
    pack_reply,
    pack_setup,
    pack_wake,
    reply_bytes,
    storage_bytes,
    unpack_reply,
    unpack_setup,
    unpack_wake,
)

sizes = st.lists(st.integers(0, 2**40), max_size=8).map(tuple)


@st.composite
def layouts(draw):
    shape = draw(sizes)
    strides = tuple(draw(st.integers(0, 2**40)) for _ in shape)
    address, nbytes = draw(st.integers(0, 2**63)), draw(st.integers(0, 2**63))
    return TensorLayout(address, nbytes, draw(st.sampled_from(DTYPES)), shape, strides)


@given(st.integers(0, 2**32 - 1), st.integers(0, 9), st.lists(layouts(), max_size=4).map(tuple))
def test_a_reply_survives_the_wire(seq, status, outputs):
    reply = Reply(seq, status, outputs)
    data = pack_reply(reply)
    assert len(data) == reply_bytes(len(outputs))
    assert unpack_reply(data) == reply


@given(st.binary(max_size=2000))
def test_garbage_raises_wire_error_and_nothing_else(data):
    with pytest.raises(WireError):
        unpack_reply(data)


@given(st.lists(layouts(), max_size=2).map(tuple), st.integers(0, 10**6), st.integers(0, 255))
def test_a_corrupted_reply_is_refused_or_read_as_plain_numbers(outputs, at, value):
    data = bytearray(pack_reply(Reply(7, 0, outputs)))
    data[at % len(data)] = value
    with contextlib.suppress(WireError):
        unpack_reply(bytes(data))


@given(st.lists(layouts(), max_size=3).map(tuple), st.lists(layouts(), max_size=3).map(tuple))
def test_the_setup_survives_the_wire(slots, outputs):
    assert unpack_setup(pack_setup(slots, outputs, 4096)) == (slots, outputs, 4096)


@given(st.integers(0, 2**32 - 1), st.lists(st.integers(0, 2**32 - 1), max_size=8).map(tuple))
def test_a_wake_survives_the_wire(seq, release):
    assert unpack_wake(pack_wake(seq, release)) == (seq, release)


@pytest.mark.parametrize(
    ("shape", "strides", "nbytes"),
    [
        ((), (), 4),
        ((3,), (1,), 12),
        ((2, 3), (3, 1), 24),
        ((2, 3), (1, 2), 24),
        ((0, 5), (5, 1), 0),
        ((2, 2), (8, 1), 40),
    ],
)
def test_storage_is_counted_from_first_to_last_element(shape, strides, nbytes):
    assert storage_bytes("float32", shape, strides) == nbytes
