"""Native code that writes what a call is told by when its kind is looked for.

A kind of call is a row of words, the *key*: the function, the default dtype, and what each argument
is. Of a tensor that is its dtype, sizes and strides, or which one before it is the same; of an int
or a float its value, of what else may be (None, bools, strings, dtypes) the object, of a list, a
tuple or a slice what is in it. Where operations are recorded and the function calls fused ones, it
tells of tensors whether a gradient may go there, too.
"""

from __future__ import annotations

from typing import TypeGuard

from staticflow.eager.fast.calls import given_count
from staticflow.eager.fast.classes import Tensor, default_dtypes, dtype_type, tensor_type
from staticflow.eager.fast.objects import dtype_of, is_tensor, is_there, pair
from staticflow.eager.fast.records import MOST, NO_DTYPE, Key, Remembered
from staticflow.native import cpython
from staticflow.native.cpython import (
    ELLIPSIS,
    NONE,
    Array,
    List,
    Slice,
    Tuple,
    bool_type,
    float_type,
    int_type,
    is_array,
    is_list,
    is_tuple,
    slice_type,
    str_type,
)
from staticflow.native.language import (
    Int32,
    Object,
    Owned,
    Row,
    address,
    bits_of,
    drop,
    drop_row,
    hold,
    inline,
    logical_shift,
    native,
    space,
    wrapping_mul,
)

__all__ = ["WORDS", "describe_call", "hash_of", "pack_key"]

WORDS = 96
"""So long is the key of a call that is remembered at most."""

A_TENSOR, THE_SAME, AN_INT, A_FLOAT, A_TUPLE, A_LIST, A_SLICE = range(1, 8)
"""What words of a key begin with; no object has so low an address."""

MAY_BE_WANTED = 1 << 32

_GOLDEN = 11400714819323198485 - (1 << 64)  # 2**64 over the golden ratio, as a signed int


# -- words ---------------------------------------------------------------------------------------


@inline
def write_word(key: Key, word: int) -> bool:
    """Write a word; false if there is no room."""
    count = key.count
    if count >= WORDS:
        return False
    key.words[count] = word
    key.count = count + 1
    return True


@inline
def write_two_words(key: Key, first: int, second: int) -> bool:
    """Write two words; false if there is no room."""
    count = key.count
    if count >= WORDS - 1:
        return False
    words = key.words[count:]
    words[0] = first
    words[1] = second
    key.count = count + 2
    return True


@native
def hash_of(key: Key) -> int:
    """The hash of a key, which is never 0."""
    words = key.words
    mixed = 1
    for i in range(key.count):
        spread = wrapping_mul(mixed ^ words[i], _GOLDEN)
        mixed = spread ^ logical_shift(spread, 32)
    return mixed | 1


# -- arguments -----------------------------------------------------------------------------------


@native
def describe_call(
    key: Key,
    function: Remembered,
    first: Object | None,
    args: Row[Object],
    count: int,
    names: Tuple | None,
) -> bool:
    """Write the key of a call; false if there is none."""
    default = cpython.PyDict_GetItem(default_dtypes, float_type)
    if default is None or not write_two_words(key, address(function), address(default)):
        return False
    if first is not None and not describe(key, first):
        return False
    if names is not None and not describe(key, names):
        return False
    for i in range(given_count(count, names)):
        if not describe(key, args[i]):
            return False
    return True


@native
def describe(key: Key, thing: Object) -> bool:
    """Write what an argument is to a key; false if it has no place in one. Nothing runs."""
    if is_tensor_itself(thing):
        return describe_tensor(key, thing)
    if thing.type is int_type:
        return describe_int(key, thing)
    if is_itself(thing):
        return write_word(key, address(thing))
    if is_tuple(thing):
        return describe_tuple(key, thing)
    if is_list(thing):
        return describe_list(key, thing)
    if is_slice(thing):
        return describe_slice(key, thing)
    if thing.type is float_type:
        return write_two_words(key, A_FLOAT, bits_of(cpython.PyFloat_AsDouble(thing)))
    return is_tensor(thing) and describe_tensor(key, thing)


@native
def is_itself(thing: Object) -> bool:
    """Whether an object is one of those that a key holds as they are."""
    kind = thing.type
    return (
        (thing is NONE)
        | (thing is ELLIPSIS)
        | (thing is float_type)
        | (thing is int_type)
        | (thing is bool_type)
        | (kind is bool_type)
        | (kind is str_type)
        | (kind is dtype_type)
    )


@inline
def describe_int(key: Key, number: Object) -> bool:
    """Write the value of an int; false if it has more than 64 bits."""
    overflow = space(Int32, 1)
    value = cpython.PyLong_AsLongLongAndOverflow(number, overflow)
    return overflow[0] == 0 and write_two_words(key, AN_INT, value)


@inline
def describe_tuple(key: Key, things: Tuple) -> bool:
    """Write what is in a tuple."""
    count = cpython.PyTuple_Size(things)
    if not write_two_words(key, A_TUPLE, count):
        return False
    for i in range(count):
        if not describe(key, cpython.PyTuple_GetItem(things, i)):
            return False
    return True


@inline
def describe_list(key: Key, things: List) -> bool:
    """Write what is in a list."""
    count = cpython.PyList_Size(things)
    if not write_two_words(key, A_LIST, count):
        return False
    for i in range(count):
        if not describe(key, cpython.PyList_GetItem(things, i)):
            return False
    return True


@inline
def describe_slice(key: Key, bounds: Slice) -> bool:
    """Write what is in a slice; there may be slices in slices without end."""
    return (
        write_word(key, A_SLICE)
        and describe(key, bounds.start)
        and describe(key, bounds.stop)
        and describe(key, bounds.step)
    )


@inline
def is_slice(thing: Object) -> TypeGuard[Slice]:
    """Whether an object is a slice."""
    return thing.type is slice_type


# -- tensors -------------------------------------------------------------------------------------


@native
def describe_tensor(key: Key, tensor: Tensor) -> bool:
    """Write what a tensor is to a key; false if its array is none of the host, or of an unknown
    dtype."""
    array = tensor.data
    if array is None or not is_array(array):
        return False
    dtype = dtype_of(array)
    if dtype == NO_DTYPE:
        return False
    count = key.tensor_count
    tensors = key.tensors
    for i in range(count):
        if tensors[i] is tensor:
            return write_word(key, i << 8 | THE_SAME)
    if count >= MOST:
        return False
    tensors[count] = tensor
    key.tensor_count = count + 1
    wanted = MAY_BE_WANTED if key.tells_wanted and is_there(tensor.vertex) else 0
    return describe_array(key, array, dtype, wanted)


@inline
def describe_array(key: Key, array: Array, dtype: int, wanted: int) -> bool:
    """Write the dims, the dtype, the sizes and the strides of an array, and what is said of its
    gradient."""
    ndim = array.ndim
    sizes = array.dims
    strides = array.strides
    if not write_word(key, wanted | ndim << 16 | dtype << 8 | A_TENSOR):
        return False
    for i in range(ndim):
        if not write_two_words(key, sizes[i], strides[i]):
            return False
    return True


@inline
def is_tensor_itself(thing: Object) -> TypeGuard[Tensor]:
    """Whether an object is a tensor, of no derived class."""
    return thing.type is tensor_type


# -- what is learnt of ---------------------------------------------------------------------------


@native
def pack_key(key: Key, hash: int) -> Owned[Tuple | None]:
    """A key and its hash as bytes, and the arrays of the tensors that it describes, as a tuple;
    null with an error set if that cannot be had."""
    count = key.count
    key.words[count] = hash
    words = cpython.PyBytes_FromStringAndSize(key.words, (count + 1) * 8)
    if words is None:
        return None
    arrays = arrays_of(key)
    if arrays is None:
        drop(words)
        return None
    return pair(words, arrays)


@native
def arrays_of(key: Key) -> Owned[Tuple | None]:
    """The arrays of the tensors that a key describes as a tuple; null with an error set."""
    count = key.tensor_count
    held = space(Owned[Object], MOST)  # before anything else runs
    for i in range(count):
        array = key.tensors[i].data
        held[i] = hold(array if array is not None else NONE)
    arrays = cpython.PyTuple_New(count)
    if arrays is not None:
        for i in range(count):
            cpython.PyTuple_SetItem(arrays, i, hold(held[i]))
    drop_row(held, count)
    return arrays
