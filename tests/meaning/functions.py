"""Small functions of two tensors of shape [3], each with one thing that changes what it means.

``lib`` is staticflow, or PyTorch where `tests/reference/make_meaning.py` runs them. Each gives a
tensor of shape [3].
"""

from typing import Any

FUNCTIONS: dict[str, Any] = {}


def function(fn: Any) -> Any:
    """Enter ``fn(lib, x, w)`` into the table by its name."""
    FUNCTIONS[fn.__name__] = fn
    return fn


# -- grad modes -----------------------------------------------------------------------------------


@function
def no_grad_block(lib, x, w):
    with lib.no_grad():
        b = x * 2
    return b * x * w


@function
def no_grad_of_a_parameter(lib, x, w):
    with lib.no_grad():
        frozen = w.exp()
    return frozen * x


@function
def no_grad_decorator(lib, x, w):
    @lib.no_grad()
    def teacher(v):
        return v * w

    return teacher(x) * x


@function
def no_grad_plain_decorator(lib, x, w):
    @lib.no_grad
    def teacher(v):
        return v.sin() + w

    return teacher(x) * x


@function
def set_grad_enabled_block(lib, x, w):
    with lib.set_grad_enabled(False):
        b = x * w
    with lib.set_grad_enabled(True):
        c = x * w
    return b * c


@function
def enable_grad_inside(lib, x, w):
    with lib.no_grad():
        a = x * x
        with lib.enable_grad():
            b = x * w
        c = b * 2
    return a + b * x + c


@function
def enable_grad_decorator(lib, x, w):
    @lib.enable_grad()
    def square(v):
        return v * v

    with lib.no_grad():
        a = square(x)
        b = a * w
    return a * w + b


@function
def inference_block(lib, x, w):
    with lib.inference_mode():
        b = x * 2 + w
    return b + x * w


@function
def asks_the_mode(lib, x, w):
    with lib.no_grad():
        inside = lib.is_grad_enabled()
    outside = lib.is_grad_enabled()
    return x * (1.0 if inside else 3.0) * (5.0 if outside else 7.0) + w


@function
def left_by_an_error(lib, x, w):
    try:
        with lib.no_grad():
            raise KeyError
    except KeyError:
        pass
    return x * w


@function
def generator_decorated(lib, x, w):
    @lib.no_grad()
    def rows():
        yield x * 2
        yield x * w

    total = x * 0
    for row in rows():
        total = total + row * x
    return total


@function
def chain_without_recording(lib, x, w):
    with lib.no_grad():
        h = x
        for _ in range(3):
            h = (h * w).tanh()
    return h * x + w


@function
def several_results_without_recording(lib, x, w):
    with lib.no_grad():
        values, places = (x * w).sort()
    return values * x.gather(0, places)


@function
def view_without_recording(lib, x, w):
    with lib.no_grad():
        part = x[1:]
    return x * part.sum() * w


@function
def view_changed_later(lib, x, w):
    y = x * 1
    with lib.no_grad():
        part = y[1:]
    y.mul_(w)
    return y * part.sum()


# -- changes in place -----------------------------------------------------------------------------


@function
def added_without_recording(lib, x, w):
    y = x * w
    with lib.no_grad():
        y += 1
    return y * y.detach().clone()


@function
def filled_without_recording(lib, x, w):
    y = x + w
    with lib.no_grad():
        y[0] = 5.0
    return y.sin()


@function
def view_filled_without_recording(lib, x, w):
    y = x + w
    part = y[1:]
    with lib.no_grad():
        part.mul_(3.0)
    return y.sin() + part.cos().sum()


@function
def copied_without_recording(lib, x, w):
    y = x * 2
    with lib.no_grad():
        y.copy_(w * 3)
    return y.sin()


@function
def changed_recorded(lib, x, w):
    y = x * 1
    y *= w
    y.add_(x)
    return y.tanh()


@function
def view_changed_recorded(lib, x, w):
    y = x * 1
    part = y[:2]
    part *= w[:2]
    return y * x


@function
def base_changed_seen_through_view(lib, x, w):
    y = x * 1
    part = y.view(3, 1)
    y.mul_(w)
    return part.reshape(3) * x


@function
def same_object(lib, x, w):
    y = x * 1
    z = y
    z += w
    return y * x


@function
def clone_is_apart(lib, x, w):
    y = x * 1
    z = y.clone()
    z += w
    return y * x + z


@function
def scattered_in_place(lib, x, w):
    y = x * 1
    y[lib.tensor([0, 2])] = w[:2]
    return y * x


@function
def masked_in_place(lib, x, w):
    y = x * w
    y[x > 0] = 0.5
    return y * x


# -- detached -------------------------------------------------------------------------------------


@function
def detached(lib, x, w):
    return x.detach() * x * w.detach()


@function
def detached_shares_memory(lib, x, w):
    y = x * w
    d = y.detach()
    d += 1
    return y.sin() + d * x


@function
def detached_sees_changes(lib, x, w):
    y = x * w
    d = y.detach()
    y += 1
    return y + d * x


@function
def detached_has_a_history_of_its_own(lib, x, w):
    y = x + 1
    d = y.detach()
    d.mul_(w)
    return y.sin() * 2 + d * x.detach()


@function
def view_of_detached(lib, x, w):
    y = x + w
    d = y.detach()[1:]
    d.mul_(2.0)
    return y.sin() + d.sum()


@function
def detached_in_place(lib, x, w):
    y = x * w
    y.detach_()
    return y * x


@function
def leaf_of_its_own(lib, x, w):
    mixed = (x * w).detach().requires_grad_()
    (slope,) = lib.autograd.grad((mixed**3 * w).sum(), [mixed], create_graph=True)
    return slope * x + mixed


@function
def leaf_that_was_made_without_recording(lib, x, w):
    with lib.no_grad():
        made = (x * 2).requires_grad_()
    (slope,) = lib.autograd.grad((made.sin() * w).sum(), [made], create_graph=True)
    (again,) = lib.autograd.grad(slope.sum(), [made], create_graph=True)
    return slope * x - again


@function
def leaf_that_is_changed(lib, x, w):
    base = x * 1
    leaf = base.detach().requires_grad_()
    with lib.no_grad():
        leaf.mul_(2)
    (slope,) = lib.autograd.grad((leaf**2).sum(), [leaf])
    return slope * w + base.detach() * x


@function
def required_again(lib, x, w):
    y = (x * w).requires_grad_()
    return y * x


# -- functions with a backward of their own -------------------------------------------------------


def _scaled(lib):
    class Scaled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.save_for_backward(x, w)
            return x * w

        @staticmethod
        def backward(ctx, ct):
            x, w = ctx.saved_tensors
            return ct * w * 3, ct * x

    return Scaled


@function
def own_backward(lib, x, w):
    return _scaled(lib).apply(x, w)


@function
def own_backward_without_recording(lib, x, w):
    with lib.no_grad():
        y = _scaled(lib).apply(x, w)
    return y * x


@function
def own_backward_of_detached(lib, x, w):
    return _scaled(lib).apply(x.detach(), w) * x


@function
def mode_inside_forward(lib, x, w):
    class Asks(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * (2.0 if lib.is_grad_enabled() else 3.0)

        @staticmethod
        def backward(ctx, ct):
            return ct * 3

    return Asks.apply(x) * w


@function
def saved_on_the_way(lib, x, w):
    class Cube(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            square = x * x
            ctx.save_for_backward(square)
            return square * x

        @staticmethod
        def backward(ctx, ct):
            (square,) = ctx.saved_tensors
            return ct * 3 * square

    return Cube.apply(x) * w


@function
def result_saved(lib, x, w):
    class Exp(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, ct):
            return ct * ctx.saved_tensors[0]

    return Exp.apply(x * 0.5) * w


@function
def not_differentiable(lib, x, w):
    class Both(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y, sign = x * 2, x.sign()
            ctx.mark_non_differentiable(sign)
            return y, sign

        @staticmethod
        def backward(ctx, ct, _):
            return ct * 2

    y, sign = Both.apply(x)
    return y * sign * w


@function
def dirty(lib, x, w):
    class Doubled(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            x.mul_(2.0)
            ctx.mark_dirty(x)
            return x

        @staticmethod
        def backward(ctx, ct):
            return ct * 2

    y = x * w
    Doubled.apply(y)
    return y * x


@function
def no_gradient_for_one(lib, x, w):
    class Half(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, w):
            return x * w

        @staticmethod
        def backward(ctx, ct):
            return ct, None

    return Half.apply(x, w)


# -- hooks ----------------------------------------------------------------------------------------


@function
def hook_of_a_value(lib, x, w):
    y = x * w
    y.register_hook(lambda g: g * 2)
    return y.sin()


@function
def hook_after_a_use(lib, x, w):
    y = x * w
    z = y.sin()
    y.register_hook(lambda g: g * 2)
    return z + y


@function
def hook_removed(lib, x, w):
    y = x * w
    y.register_hook(lambda g: g * 2).remove()
    return y.sin()


# -- copies and views that change nothing ---------------------------------------------------------


ALL_OF_IT: dict[str, Any] = {
    "clone": lambda x: x.clone(),
    "expand": lambda x: x.expand(3),
    "movedim": lambda x: x.movedim(0, 0),
    "permute": lambda x: x.permute(0),
    "reshape": lambda x: x.reshape(3),
    "slice": lambda x: x[:],
    "squeeze": lambda x: x.squeeze(),
    "transpose": lambda x: x.transpose(0, 0),
    "view": lambda x: x.view(3),
    "view_as": lambda x: x.view_as(x),
}
"""What gives the elements of ``x`` as they are, in a vertex of its own."""


def _enter_all_of_it(name: str, fn: Any) -> None:
    def without_recording(lib, x, w):
        with lib.no_grad():
            y = fn(x)
        return x * y * w

    def hooked(lib, x, w):
        x = x * 2
        y = fn(x)
        y.register_hook(lambda g: g * 10)
        return x * y * w

    def differentiated(lib, x, w):
        x = x * 2
        y = fn(x)
        (g,) = lib.autograd.grad((x * y.sin() * w).sum(), [y], create_graph=True)
        return g + y

    def changed(lib, x, w):
        x = x * 2
        y = fn(x)
        y.mul_(w)
        y[1:] += x[0]
        return x * y.sin()

    def changed_below(lib, x, w):
        x = x * 2
        y = fn(x)
        z = y + y
        x.add_(w)
        return x * y.sin() + z

    def changed_without_recording(lib, x, w):
        x = x * w
        y = fn(x)
        with lib.no_grad():
            y.add_(1.0)
        return x * y.detach() + y

    for function in (
        without_recording, hooked, differentiated, changed, changed_below, changed_without_recording,
    ):  # fmt: skip
        FUNCTIONS[f"{name}_{function.__name__}"] = function


for _name, _fn in ALL_OF_IT.items():
    _enter_all_of_it(_name, _fn)


# -- sizes in Python ------------------------------------------------------------------------------


@function
def divided_by_a_size(lib, x, w):
    return x * w / x.shape[0]


@function
def arange_of_a_size(lib, x, w):
    return x * w * lib.arange(x.shape[0])


@function
def reshaped_by_a_size(lib, x, w):
    return (x.reshape(1, x.shape[0]) * w).sum(0)


@function
def loop_over_a_size(lib, x, w):
    total = x * 0
    for i in range(x.shape[0]):
        total = total + x[i] * w
    return total


@function
def branch_on_a_size(lib, x, w):
    return x * w if x.shape[0] > 2 else x


@function
def length(lib, x, w):
    return x * w / len(x)


@function
def iteration(lib, x, w):
    return lib.stack([v * v for v in x]) * w


@function
def size_and_numel(lib, x, w):
    return x * w * x.size(0) / x.numel()


@function
def size_as_a_float(lib, x, w):
    return x * w * float(x.shape[0])


# -- what is asked of a tensor --------------------------------------------------------------------


@function
def asks_dtype_and_rank(lib, x, w):
    return x * (2.0 if x.dtype == lib.float32 and x.dim() == 1 else 5.0) * w


@function
def constants_of_the_default_dtype(lib, x, w):
    return x * w * lib.ones(3) * lib.tensor([1.0, 2.0, 3.0])


@function
def branch_on_a_value(lib, x, w):
    return x * w if x.sum() > 0 else x


@function
def number_of_a_value(lib, x, w):
    return x * w * x.sum().item()


@function
def is_a_tensor(lib, x, w):
    return x * w if lib.is_tensor(x) else x


@function
def in_another_default_dtype(lib, x, w):
    lib.set_default_dtype(lib.float64)
    try:
        return (x * w * lib.ones(3)).to(x.dtype)
    finally:
        lib.set_default_dtype(lib.float32)


# -- one memory, several names --------------------------------------------------------------------


@function
def weights_shared(lib, x, w):
    return (x * w).tanh() * w


@function
def argument_given_twice(lib, x, w):
    def product(a, b):
        return a * b.detach()

    return product(x, x) * w


@function
def expanded(lib, x, w):
    y = x[:1].expand(3)
    return y * w * x
