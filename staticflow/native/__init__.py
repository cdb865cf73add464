"""Native functions, written as typed and restricted Python, and translated to LLVM text.

A native function stands at the top of a module and is decorated by `native`, `inline` or `export`
(`language`). It runs as Python too. Its grammar::

    function    = def name(param: T, ...) -> T: statement...
    statement   = name = value | name: T = value | name op= value
                | value.field = value | row[i] = value
                | if value: ... elif value: ... else: ...
                | while value: ... | for name in range(value, ...): ...
                | break | continue | pass | return | return value | call
    value       = name | number | True | False | None | value.field | row[i] | row[i:]
                | value (+ - * // % & | ^ << >>) value | - value | ~ value
                | value (== != < <= > >=) value | pointer (is, is not) pointer
                | value and value | value or value | not value | value if value else value
                | (name := value) | call
    call        = function(value, ...) | value.field(value, ...) | word(value, ...)
                | atomic.step(value, ..., order)
    T           = int | Int32 | Byte | bool | float | None | Row[T] | T | None | Owned[T]
                | Inside[T] | Atomic[T] | TypeGuard[T] | Callable[[T, ...], T]
                | class of `Object` or `Record`

The words are in `language`: `hold`, `drop`, `drop_row`, `take` and `trust` of references;
`zero_record`, `zero_row`, `space`, `copy`, `address`, `size_of` and `offset_of` of memory;
`unsigned_less`, `logical_shift`, `wrapping_mul` and `bits_of` of numbers. A name that is no
variable is a number of the module, the address of a function, or what `constant`, `variable` and
`variables` make, and so is ``module.name``; `variant` makes of a function another, for other
numbers. An external function may take any number of further arguments, ``*more: T``. The steps of
an `Atomic` are its methods.

Arithmetic is Python's as long as results have 64 bits; dividing by 0 and shifting by more than 63
are not defined.

`source` finds a function, `annotations` reads of which `types` its values are, `layout` where they
lie, and `translate` writes its text by the rules in `statements`, `loops`, `expressions`,
`conditions`, `calls`, `words` and `atomics`. What these know on the way is a `scope`; `ownership`
follows each value, and joins what is known where control flow meets. `module` puts functions
together. `cpython` declares what CPython and NumPy lend.
"""
