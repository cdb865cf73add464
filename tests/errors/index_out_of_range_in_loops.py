# raises IndexRangeError
# says index_select
# says in iteration 1 of the scan at
# says in iteration 2 of the while at
# says the index 4, at [0], is outside dim 0 of size 4
import staticflow as sf

table, n = sf.placeholder((4,), name="table"), sf.placeholder((), "int64", name="n")


def row(total, k):
    def cell(total, j):
        picked = table.index_select(0, (k + j * 2).reshape(1))  # <-- also
        return total + picked.sum(), None

    last, _ = sf.scan(cell, total, sf.arange(2))  # <-- also
    return last


start = (0, sf.zeros(()))
_, total = sf.while_loop(lambda k, t: k < n, lambda k, t: (k + 1, row(t, k)), start)  # <-- also
program = sf.compile([table, n], total)
assert program(sf.ones(4), 2).item() == 4
program(sf.ones(4), 3)  # <-- error
