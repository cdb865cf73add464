"""Padding, dropout, embedding and what else of the layers of space is no single op."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import staticflow as sf
from staticflow import nn
from staticflow.eager import kernels
from staticflow.nn import functional as F

NUMPY_MODES = {
    "constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap",
}  # fmt: skip


def array(*shape: int, dtype: str = "float64") -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(dtype)


# -- padding ------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", NUMPY_MODES)
@pytest.mark.parametrize("ends", [(1, 2), (0, 1, 2, 0), (2, 2, 1, 3), ()], ids=str)
def test_pad_is_that_of_numpy(mode: str, ends: tuple[int, ...]) -> None:
    x = array(2, 3, 5, 4)
    pairs = [(ends[i], ends[i + 1]) for i in range(0, len(ends), 2)][::-1]
    around = [(0, 0)] * (x.ndim - len(pairs)) + pairs
    wanted = np.pad(x, around, mode=NUMPY_MODES[mode])
    np.testing.assert_array_equal(F.pad(sf.from_numpy(x), ends, mode).numpy(), wanted)
    p = sf.placeholder((None, 3, None, None), "float64", name="x")
    program = sf.compile([p], [F.pad(p, ends, mode), sf.grad((F.pad(p, ends, mode) ** 2).sum(), p)])
    out, slope = program(x)
    np.testing.assert_array_equal(out.numpy(), wanted)
    leaf = sf.tensor(x, requires_grad=True)
    (F.pad(leaf, ends, mode) ** 2).sum().backward()
    np.testing.assert_allclose(slope.numpy(), leaf.grad.numpy(), rtol=1e-12)


def test_pad_takes_away_and_fills_with_a_value_of_any_dtype() -> None:
    x = sf.tensor([[1, 2, 3], [4, 5, 6]])
    assert F.pad(x, (-1, 1), value=7).tolist() == [[2, 3, 7], [5, 6, 7]]
    assert F.pad(x, (0, -2, 1, 0)).tolist() == [[0], [1], [4]]
    assert F.pad(sf.tensor([True]), (1, 0)).tolist() == [False, True]
    assert F.pad(sf.tensor([1.0]), (1, 0), value=-math.inf).tolist() == [-math.inf, 1.0]


@pytest.mark.parametrize(
    ("ends", "mode", "says"),
    [
        ((1,), "constant", "a pair of counts"),
        ((1, 1, 1, 1, 1, 1), "constant", "a pair of counts"),
        ((3, 0), "reflect", "too short for 3"),
        ((4, 0), "circular", "too short for 4"),
        ((1, 1), "mirror", "must be one of constant, reflect"),
    ],
)
def test_pad_says_what_is_wrong(ends: tuple[int, ...], mode: str, says: str) -> None:
    with pytest.raises(sf.ShapeError, match=says):
        F.pad(sf.ones(2, 3), ends, mode)


# -- windows ------------------------------------------------------------------------------------


def test_what_has_no_batch_is_taken_alone() -> None:
    x = sf.from_numpy(array(2, 6, 7))
    w = sf.from_numpy(array(3, 2, 2, 2))
    for fn in (
        lambda v: F.conv2d(v, w),
        lambda v: F.conv_transpose2d(v, w.transpose(0, 1)),
        lambda v: F.max_pool2d(v, 2),
        lambda v: F.avg_pool2d(v, 2),
        lambda v: F.adaptive_avg_pool2d(v, 3),
        lambda v: F.adaptive_max_pool2d(v, 3, return_indices=True)[1],
    ):
        np.testing.assert_array_equal(fn(x).numpy(), fn(x.unsqueeze(0)).numpy()[0])


def test_the_maximum_of_a_whole_plane() -> None:
    data = array(2, 3, 4, 5)
    data[0, 1, 2, 3] = np.nan
    values, slopes = [], []
    for indices in (False, True):
        x = sf.tensor(data, requires_grad=True)
        out = F.adaptive_max_pool2d(x, 1, return_indices=indices)
        out = out[0] if indices else out
        out.backward(sf.from_numpy(array(2, 3, 1, 1)))
        values.append(out.detach().numpy())
        slopes.append(x.grad.numpy())
    np.testing.assert_array_equal(*values)
    np.testing.assert_array_equal(*slopes)


def test_one_program_for_images_of_every_size() -> None:
    w = sf.variable(array(4, 3, 3, 3))
    x = sf.placeholder((None, 3, None, None), "float64", name="x")
    out = F.max_pool2d(F.conv2d(x, w, stride=2, padding=1), 2)
    program = sf.compile([x], [out, *sf.grad((out * out).sum(), [x, w])])
    for shape in ((0, 3, 8, 8), (1, 3, 3, 4), (2, 3, 9, 40), (1, 3, 65, 34)):
        data = sf.tensor(array(*shape), requires_grad=True)
        leaf = sf.tensor(w.detach().numpy(), requires_grad=True)
        eager = F.max_pool2d(F.conv2d(data, leaf, stride=2, padding=1), 2)
        (eager * eager).sum().backward()
        wanted = (eager.detach(), data.grad, leaf.grad)
        for a, b in zip(program(data.detach()), wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-10)
    assert program.compile_count == 1
    with pytest.raises(sf.ShapeError, match=r"the room for a window of 3 .* must be at least 3"):
        program(np.zeros((1, 3, 0, 8)))


def test_a_convolution_is_compiled_once_for_every_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []

    def counted(apply: Any, *rest: Any) -> Any:
        compiled.append(apply.args[0].name)
        return original(apply, *rest)

    original = kernels.compile_function
    monkeypatch.setattr(kernels, "compile_function", counted)
    w = sf.tensor(array(3, 2, 4, 5), requires_grad=True)
    for rows in (2, 3, 0, 700):
        F.conv2d(sf.from_numpy(array(rows, 2, 9, 11)).requires_grad_(), w).sum().backward()
    spatial = [name for name in compiled if name.startswith("conv")]
    assert sorted(spatial) == ["convolution", "convolution_kernel", "convolution_transpose"]


def test_grad_fn_is_named_as_in_pytorch() -> None:
    x = sf.tensor(array(1, 2, 4, 4), requires_grad=True)
    w = sf.from_numpy(array(2, 2, 3, 3))
    names = {
        "ConvolutionBackward0": F.conv2d(x, w, sf.zeros(2, dtype="float64")),
        "MaxPool2DWithIndicesBackward0": F.max_pool2d(x, 2),
        "AvgPool2DBackward0": F.avg_pool2d(x, 2),
        "AdaptiveAvgPool2DBackward0": F.adaptive_avg_pool2d(x, 3),
        "MeanBackward": F.adaptive_avg_pool2d(x, 1),
        "NativeBatchNormBackward0": F.batch_norm(x, None, None, training=True),
        "NativeLayerNormBackward0": F.layer_norm(x, 4),
        "NativeGroupNormBackward0": F.group_norm(x, 2),
    }
    for name, out in names.items():
        assert name in str(out.grad_fn)


# -- normalisation ------------------------------------------------------------------------------


def test_normalize_has_norm_one() -> None:
    x = array(3, 4, 2)
    for p, dim in ((2.0, 1), (1.0, -1)):
        out = F.normalize(sf.from_numpy(x), p, dim).numpy()
        np.testing.assert_allclose((np.abs(out) ** p).sum(dim), 1)
    assert F.normalize(sf.zeros(2, 2)).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_running_statistics_move_alike_in_both_modes_by_turns() -> None:
    layers = [nn.BatchNorm1d(3, momentum=None), nn.BatchNorm1d(3, momentum=None)]
    x = sf.placeholder((None, 3), name="x")
    step = sf.compile([x], layers[0](x))
    for turn in range(6):
        data = sf.from_numpy(array(turn + 2, 3, dtype="float32") + turn)
        layers[1](data)
        (step if turn % 2 == 0 else layers[0])(data)
    for (key, a), (_, b) in zip(layers[0].named_buffers(), layers[1].named_buffers(), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, err_msg=key)
    assert layers[0].num_batches_tracked.item() == 6


def test_a_layer_in_evaluation_changes_nothing() -> None:
    layer = nn.BatchNorm2d(2).eval()
    before = {k: v.numpy().copy() for k, v in layer.named_buffers()}
    layer(sf.from_numpy(array(2, 2, 3, 3, dtype="float32")))
    for key, value in layer.named_buffers():
        np.testing.assert_array_equal(value.numpy(), before[key])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_floats_are_normalised_in_32_bits(dtype: str) -> None:
    x = sf.tensor(np.full((4, 600), 300.0) + np.arange(600) % 7, dtype=dtype)
    out = F.layer_norm(x, 600)
    wide = x.float().numpy()
    wanted = (wide - wide.mean(1, keepdims=True)) / wide.std(1, keepdims=True)
    np.testing.assert_allclose(out.float().numpy(), wanted, rtol=0.02, atol=0.02)


# -- dropout ------------------------------------------------------------------------------------

DROPOUTS = {
    "Dropout": (3, 4, 5), "Dropout1d": (3, 4, 5), "Dropout2d": (3, 4, 5, 2),
    "Dropout3d": (3, 4, 2, 2, 2), "AlphaDropout": (3, 4, 5), "FeatureAlphaDropout": (3, 4, 5),
}  # fmt: skip


@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_is_the_same_in_both_modes_and_anew_each_time(name: str) -> None:
    layer = getattr(nn, name)(0.5)
    x = sf.placeholder((None, *DROPOUTS[name][1:]), name="x")
    program = sf.compile([x], layer(x))
    data = sf.ones(*DROPOUTS[name])
    runs = []
    for run in (program, layer):
        sf.manual_seed(3)
        runs.append([run(data).numpy() for _ in range(3)])
    for a, b in zip(*runs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)
    assert not np.array_equal(runs[0][0], runs[0][1])
    assert layer.eval()(data) is data


def test_feature_dropout_leaves_out_whole_channels() -> None:
    sf.manual_seed(0)
    out = F.dropout2d(sf.ones(20, 5, 3, 3), 0.4).numpy()
    assert set(np.unique(out)) == {np.float32(0), np.float32(1 / 0.6)}
    assert (out == out[:, :, :1, :1]).all()
    for shape, other in (((20, 5, 3), "dropout1d"), ((20, 5), "dropout")):
        sf.manual_seed(0)
        with pytest.warns(UserWarning, match=f"dropout2d: .* as PyTorch does; write {other},"):
            out = F.dropout2d(sf.ones(shape), 0.4)
        sf.manual_seed(0)
        assert out.equal(getattr(F, other)(sf.ones(shape), 0.4))
        assert 0 < (out == 0).sum() < out.numel()


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    sf.manual_seed(0)
    x = sf.randn(200000)
    out = F.alpha_dropout(x, 0.3, training=True).numpy()
    assert abs(out.mean()) < 0.02 and abs(out.var() - 1) < 0.03


@pytest.mark.parametrize("make", [lambda: nn.Dropout(1.5), lambda: nn.Dropout2d(-0.1)])
def test_a_probability_is_checked(make: Any) -> None:
    with pytest.raises(sf.StaticflowError, match="from 0 to 1"):
        make()


# -- embedding and first values -----------------------------------------------------------------


def test_embedding_takes_rows_and_trains_all_but_the_padding() -> None:
    layer = nn.Embedding(5, 3, padding_idx=-1)
    assert layer.padding_idx == 4 and layer.weight.detach().numpy()[4].tolist() == [0, 0, 0]
    index = sf.tensor([[1, 4], [1, 0]])
    out = layer(index)
    np.testing.assert_array_equal(
        out.detach().numpy(), layer.weight.detach().numpy()[index.numpy()]
    )
    out.sum().backward()
    assert layer.weight.grad.numpy()[:, 0].tolist() == [1, 2, 0, 0, 0]
    x = sf.placeholder((None, None), "int64", name="x")
    program = sf.compile([x], [layer(x), sf.grad(layer(x).sum(), layer.weight)])
    static, slope = program(index)
    np.testing.assert_array_equal(static.numpy(), out.detach().numpy())
    np.testing.assert_array_equal(slope.numpy(), layer.weight.grad.numpy())
    with pytest.raises(sf.IndexRangeError):
        layer(sf.tensor([5]))
    with pytest.raises(sf.ShapeError, match="outside the 5 embeddings"):
        nn.Embedding(5, 3, padding_idx=5)


def test_embedding_from_pretrained_takes_integers_that_are_frozen() -> None:
    layer = nn.Embedding.from_pretrained(sf.arange(6).reshape(3, 2))
    assert layer(sf.tensor([1])).tolist() == [[2, 3]] and not layer.weight.requires_grad
    with pytest.raises(sf.AutogradError, match="only floating tensors have gradients, not int64"):
        nn.Embedding.from_pretrained(sf.arange(6).reshape(3, 2), freeze=False)


def test_embedding_from_pretrained_is_on_the_memory_given() -> None:
    table = sf.from_numpy(array(4, 2))
    layer = nn.Embedding.from_pretrained(table)
    assert repr(layer) == "Embedding(4, 2)" and not layer.weight.requires_grad
    table[0, 0] = 9.0
    assert layer(sf.tensor(0)).tolist()[0] == 9.0


@pytest.mark.parametrize(
    ("layer", "fan_in"),
    [
        (nn.Conv1d(8, 40, 5), 40),
        (nn.Conv2d(8, 40, 3, groups=2), 36),
        (nn.ConvTranspose2d(20, 30, 3), 270),
    ],
    ids=str,
)
def test_weights_start_within_pytorchs_bounds(layer: Any, fan_in: int) -> None:
    bound = 1 / math.sqrt(fan_in)
    for parameter in layer.parameters():
        values = np.abs(parameter.detach().numpy())
        assert values.max() <= bound
        if values.size > 1000:
            assert values.max() > 0.98 * bound and abs(values.mean() / bound - 0.5) < 0.05


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "multiples of groups 2"),
        (lambda: nn.Conv2d(3, 4, 3, padding_mode="mirror"), "padding_mode is 'mirror'"),
        (lambda: nn.ConvTranspose2d(2, 2, 3, padding_mode="reflect"), "must be one of zeros"),
        (lambda: nn.Conv1d(1, 1, 0), "kernel_size is 0"),
        (lambda: nn.GroupNorm(3, 4), "into 3 equal groups"),
        (lambda: nn.BatchNorm2d(3)(sf.ones(2, 3)), "takes an input of 4 dims"),
        (lambda: nn.BatchNorm1d(3)(sf.ones(1, 3)), "one element in each channel"),
        (lambda: F.batch_norm(sf.ones(2, 3), None, None), "without running statistics"),
        (lambda: F.dropout2d(sf.ones(3), 0.5), "takes an input of 4 dims"),
    ],
)
def test_errors_say_what_to_do(make: Any, says: str) -> None:
    with pytest.raises(sf.StaticflowError, match=says) as caught:
        make()
    assert "test_nn_spatial_functions.py" in str(caught.value)


# -- a network of all of them -------------------------------------------------------------------


class Small(nn.Module):
    """A network with every kind of layer here."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1, padding_mode="reflect"), nn.BatchNorm2d(4), nn.ReLU(),
            nn.MaxPool2d(3, 2, padding=1), nn.Conv2d(4, 6, 3, groups=2, stride=2, bias=False),
            nn.GroupNorm(3, 6), nn.ConvTranspose2d(6, 4, 2), nn.Dropout2d(0.2), nn.Tanh(),
            nn.InstanceNorm2d(4, affine=True), nn.AvgPool2d(2, 1), nn.AdaptiveAvgPool2d(2),
            nn.Flatten(), nn.Dropout(0.1), nn.LayerNorm(16), nn.Linear(16, 3),
        )  # fmt: skip

    def forward(self, x: Any) -> Any:
        return self.body(x)


def test_both_modes_train_alike_for_50_steps() -> None:
    sf.manual_seed(0)
    models = [Small().to("float64"), Small().to("float64")]
    models[1].load_state_dict(models[0].state_dict())
    optimisers = [sf.optim.SGD(m.parameters(), lr=0.05, momentum=0.9) for m in models]
    x = sf.placeholder((None, 1, None, None), "float64", name="x")
    target = sf.placeholder((None,), "int64", name="target")
    loss = F.cross_entropy(models[0](x), target)
    step = sf.compile([x, target], loss, updates=optimisers[0].minimize(loss))
    rng = np.random.default_rng(0)
    batches = [
        (rng.standard_normal((4 + i % 3, 1, 12 + i % 2, 13)), rng.integers(0, 3, 4 + i % 3))
        for i in range(50)
    ]
    sf.manual_seed(1)
    static = [step(*batch).item() for batch in batches]
    sf.manual_seed(1)
    eager = []
    for data, labels in batches:
        optimisers[1].zero_grad()
        out = F.cross_entropy(models[1](sf.from_numpy(data)), sf.from_numpy(labels))
        out.backward()
        optimisers[1].step()
        eager.append(out.item())
    np.testing.assert_allclose(static, eager, rtol=1e-8)
    assert step.compile_count == 1
    for (key, a), (_, b) in zip(*(m.state_dict().items() for m in models), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6, atol=1e-9, err_msg=key)
