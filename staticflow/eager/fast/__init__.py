"""The fast path of eager operations: native code from the tensors to NumPy and back.

Every op but loops has a builtin function (`forms`), and the ops that are methods and operators of
`Tensor` are so by native methods. They take the usual case: tensors on the host of dtypes that need
no promotion, or a tensor beside numbers that do not change its dtype, and nothing special going on
in the thread. Everything else, errors included, goes to the general path,
`staticflow.eager.mode`, which gives the same; and all of it, where native code cannot read the
objects of this Python.

All of it is one module, which `core_text` puts together and which is compiled once in a process.
Most of it is native functions in Python (`staticflow.native`); the files ``*_text`` hold LLVM text
that is not said in Python yet, and `beside` is what native functions call of it. `records` declares
what an op, a call or a plan is there, and `classes` the classes of Python that are read.
`apply` is where to begin.

In these texts references are counted as in C: what a function gives is the caller's to drop, what
it is given is not, unless it says that it *takes* it. Names with a ``$`` stand for numbers: where
slots lie, how large objects are.
"""
