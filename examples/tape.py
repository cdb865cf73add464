"""The tape: what is recorded, what is kept for the backward pass, and what can be left out."""

import staticflow as sf
from staticflow.utils.checkpoint import checkpoint


def main() -> None:
    w = sf.tensor([1.0, 2.0], requires_grad=True)
    y = (w * w).sum()
    print(f"{y}, made by {y.grad_fn.next_functions[0][0]}, is_leaf {y.is_leaf}, {w.is_leaf}")
    y.backward(retain_graph=True)
    y.backward()  # gradients add up
    print(f"twice: {w.grad.tolist()}")
    try:
        y.backward()  # what the second one kept is freed
    except sf.AutogradError as error:
        print(f"refused: {error}")

    with sf.no_grad():
        print(f"not recorded: {(w * w).requires_grad}; detached: {(w * w).detach().requires_grad}")
    with sf.inference_mode():
        frozen = w * w
    try:
        frozen * w  # made for looking at only
    except sf.StaticflowError as error:
        print(f"refused: {error}")

    kept = []  # what the tape keeps can be packed away, here to half the size

    def pack(tensor):
        kept.append(tensor.shape)
        return tensor.half()

    with sf.autograd.graph.saved_tensors_hooks(pack, lambda packed: packed.float()):
        z = (w.exp() * w).sum()
    w.grad = None
    z.backward()
    print(f"kept {len(kept)} tensors as float16, gradient {w.grad.tolist()}")

    w.grad = None  # or not kept at all, and computed again on the way back
    checkpoint(lambda v: (v.exp() * v).sum(), w, use_reentrant=False).backward()
    print(f"checkpointed, gradient {[round(g, 4) for g in w.grad.tolist()]}")

    x = w
    for _ in range(100_000):  # deep graphs are no matter
        x = x * 1.00001
    w.grad = None
    x.sum().backward()
    print(f"through 100000 operations: {w.grad[0].item():.3f}")


if __name__ == "__main__":
    main()
