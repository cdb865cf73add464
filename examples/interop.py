"""With NumPy and other libraries: shared memory, NumPy's functions, DLPack, pickles, notebooks."""

import copy
import pickle

import numpy as np

import staticflow as sf


def main() -> None:
    a = sf.ones(3)
    b = a.numpy()  # no copy
    a.add_(1)
    print(f"the array follows the tensor: {b}")
    c = sf.from_numpy(b)
    b[0] = 7
    print(f"and the tensor the array: {c.tolist()}")

    w = sf.tensor([0.0, 1.0], requires_grad=True)
    y = np.exp(w) + np.ones(2, np.float32)  # NumPy's functions on a tensor are recorded
    y.sum().backward()
    print(f"{y}, gradient {w.grad.tolist()}")

    shared = np.from_dlpack(a)  # any library that speaks DLPack, without a copy
    back = sf.from_dlpack(shared)
    back.zero_()
    print(f"zeroed through DLPack: {a.tolist()}")

    table = sf.tensor([[1.5, 2.0]], requires_grad=True)
    again, apart = pickle.loads(pickle.dumps(table)), copy.deepcopy(table)
    print(f"pickled and copied: {again.tolist()}, {apart.requires_grad}")
    print(f"in a notebook it is a table: {table._repr_html_()[:19]}...")

    x = sf.placeholder((None, 2), name="x")  # compiled programs take arrays and tensors alike
    program = sf.compile([x], x.sum(dim=0))
    print(program(np.ones((3, 2), np.float32)), program(sf.ones(4, 2)))

    for refused in (
        lambda: w.numpy(),
        lambda: program(np.ones((3, 2))),  # float64
        lambda: sf.from_numpy(np.array(["no", "numbers"])),
    ):
        try:
            refused()
        except sf.StaticflowError as error:
            print(f"refused: {error}")


if __name__ == "__main__":
    main()
