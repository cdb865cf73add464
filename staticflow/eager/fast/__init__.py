"""The fast path of eager operations: native code from the tensors to NumPy and back.

Every op but loops has a builtin function (`forms`), and the ops that are methods and operators of
`Tensor` are so by native methods. They take the usual case: tensors on the host of dtypes that need
no promotion, or a tensor beside numbers that do not change its dtype, and nothing special going on
in the thread. Everything else, errors included, goes to the general path,
`staticflow.eager.mode`, which gives the same; and all of it, where native code cannot read the
objects of this Python.

All of it is native functions in Python (`staticflow.native`) in one module, which `core` puts
together and which is compiled once in a process; `apply` is where to begin. `records` declares what
an op, a call or a plan is there, `classes` the classes of Python that are read, and `objects` what
is asked of these.
"""
