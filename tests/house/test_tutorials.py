"""Programs as the tutorials of PyTorch teach one to write them run after a change of the import.

Each is written anew after what its tutorial shows, under the name that such programs use.
"""

from __future__ import annotations

import math
import random
from typing import Any

import numpy as np
import pytest

import staticflow as torch
import staticflow.nn.functional as F
from staticflow import nn, optim
from staticflow.autograd import Variable

# -- a two-layer network, one way after the other -------------------------------------------------

N, D_IN, H, D_OUT, RATE, STEPS = 16, 20, 12, 3, 1e-4, 60


def start() -> tuple[np.ndarray[Any, Any], ...]:
    draw = np.random.default_rng(0)
    shapes = ((N, D_IN), (N, D_OUT), (D_IN, H), (H, D_OUT))
    return tuple(draw.standard_normal(s).astype(np.float32) for s in shapes)


def with_numpy() -> list[float]:
    x, y, w1, w2 = start()
    losses = []
    for _ in range(STEPS):
        h = x.dot(w1)
        h_relu = np.maximum(h, 0)
        y_pred = h_relu.dot(w2)
        losses.append(float(np.square(y_pred - y).sum()))
        grad_y_pred = 2.0 * (y_pred - y)
        grad_w2 = h_relu.T.dot(grad_y_pred)
        grad_h = grad_y_pred.dot(w2.T)
        grad_h[h < 0] = 0
        w1 -= RATE * x.T.dot(grad_h)
        w2 -= RATE * grad_w2
    return losses


def with_tensors() -> list[float]:
    device = torch.device("cpu")
    x, y, w1, w2 = (torch.tensor(a, device=device, dtype=torch.float32) for a in start())
    losses = []
    for _ in range(STEPS):
        h = x.mm(w1)
        h_relu = h.clamp(min=0)
        y_pred = h_relu.mm(w2)
        losses.append((y_pred - y).pow(2).sum().item())
        grad_y_pred = 2.0 * (y_pred - y)
        grad_w2 = h_relu.t().mm(grad_y_pred)
        grad_h = grad_y_pred.mm(w2.t()).clone()
        grad_h[h < 0] = 0
        w1 -= RATE * x.T.mm(grad_h)
        w2 -= RATE * grad_w2
    return losses


def with_autograd() -> list[float]:
    x, y, w1, w2 = map(torch.from_numpy, start())
    w1.requires_grad_()
    w2.requires_grad_()
    losses = []
    for _ in range(STEPS):
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        with torch.no_grad():
            w1 -= RATE * w1.grad
            w2 -= RATE * w2.grad
            w1.grad.zero_()
            w2.grad.zero_()
    return losses


def with_variables() -> list[float]:
    dtype = torch.FloatTensor
    x, y, w1, w2 = (torch.from_numpy(a).type(dtype) for a in start())
    x, y = Variable(x), Variable(y, requires_grad=False)
    w1, w2 = Variable(w1, requires_grad=True), Variable(w2, requires_grad=True)
    losses = []
    for step in range(STEPS):
        if step:
            w1.grad.data.zero_()
            w2.grad.data.zero_()
        loss = (x.mm(w1).clamp(min=0).mm(w2) - y).pow(2).sum()
        losses.append(float(loss.data))
        loss.backward()
        w1.data -= RATE * w1.grad.data
        w2.data -= RATE * w2.grad.data
    return losses


class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, input: Any) -> Any:
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (input,) = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


def with_a_new_function() -> list[float]:
    x, y, w1, w2 = map(torch.from_numpy, start())
    w1.requires_grad = w2.requires_grad = True
    losses = []
    for _ in range(STEPS):
        relu = MyReLU.apply
        loss = (relu(x.mm(w1)).mm(w2) - y).pow(2).sum()
        losses.append(loss.item())
        loss.backward()
        for w in (w1, w2):
            w.data.sub_(RATE * w.grad)
            w.grad = None
    return losses


def model_and_data() -> Any:
    x, y, w1, w2 = map(torch.from_numpy, start())
    model = nn.Sequential(
        nn.Linear(D_IN, H, bias=False), nn.ReLU(), nn.Linear(H, D_OUT, bias=False)
    )
    with torch.no_grad():
        model[0].weight.copy_(w1.t())
        model[2].weight.copy_(w2.t())
    return model, x, y


def with_nn() -> list[float]:
    model, x, y = model_and_data()
    loss_fn = nn.MSELoss(reduction="sum")
    losses = []
    for _ in range(STEPS):
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for param in model.parameters():
                param -= RATE * param.grad
    return losses


def with_optim() -> list[float]:
    model, x, y = model_and_data()
    loss_fn = nn.MSELoss(reduction="sum")
    optimizer = optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        loss = loss_fn(model(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


class TwoLayerNet(nn.Module):
    def __init__(self, d_in: int, h: int, d_out: int) -> None:
        super().__init__()
        self.linear1 = nn.Linear(d_in, h, bias=False)
        self.linear2 = nn.Linear(h, d_out, bias=False)

    def forward(self, x: Any) -> Any:
        return self.linear2(self.linear1(x).clamp(min=0))


def with_a_module() -> list[float]:
    like, x, y = model_and_data()
    model = TwoLayerNet(D_IN, H, D_OUT)
    model.load_state_dict({"linear1.weight": like[0].weight, "linear2.weight": like[2].weight})
    optimizer = optim.SGD(model.parameters(), lr=RATE)
    losses = []
    for _ in range(STEPS):
        loss = F.mse_loss(model(x), y, reduction="sum")
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return losses


WAYS = (
    with_tensors, with_autograd, with_variables, with_a_new_function, with_nn, with_optim,
    with_a_module,
)  # fmt: skip


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
def test_the_two_layer_network_learns_alike_in_every_way(way: Any) -> None:
    wanted = with_numpy()
    assert wanted[-1] < 0.2 * wanted[0]
    np.testing.assert_allclose(way(), wanted, rtol=1e-3)


# -- a polynomial ---------------------------------------------------------------------------------


class LegendrePolynomial3(torch.autograd.Function):
    """``(5 x ** 3 - 3 x) / 2``."""

    @staticmethod
    def forward(ctx: Any, input: Any) -> Any:
        ctx.save_for_backward(input)
        return 0.5 * (5 * input**3 - 3 * input)

    @staticmethod
    def backward(ctx: Any, grad_output: Any) -> Any:
        (input,) = ctx.saved_tensors
        return grad_output * 1.5 * (5 * input**2 - 1)


def test_a_sine_by_a_polynomial() -> None:
    x = torch.linspace(-math.pi, math.pi, 200, dtype=torch.float32)
    y = torch.sin(x)
    a, b, c, d = (torch.full((), v, requires_grad=True) for v in (0.0, -1.0, 0.0, 0.3))
    p3 = LegendrePolynomial3.apply
    for t in range(200):
        loss = (a + b * p3(c + d * x) - y).pow(2).sum()
        if t == 0:
            first = loss.item()
        loss.backward()
        with torch.no_grad():
            for p in (a, b, c, d):
                p -= 5e-6 * p.grad
                p.grad = None
    assert loss.item() < 0.8 * first and f"{a.item():.2f} + {b.item():.2f}" == f"{a:.2f} + {b:.2f}"
    p = torch.tensor([1, 2, 3])
    xx = x.unsqueeze(-1).pow(p)
    model = nn.Sequential(nn.Linear(3, 1), nn.Flatten(0, 1))
    assert xx.shape == (200, 3) and model(xx).shape == y.shape


# -- what tensors are and how autograd works ------------------------------------------------------


def test_first_steps_with_tensors() -> None:
    x = torch.empty(5, 3)
    x = x.new_ones(5, 3, dtype=torch.double)
    x = torch.randn_like(x, dtype=torch.float)
    assert tuple(x.size()) == (5, 3)
    y = torch.rand(5, 3)
    result = x + y
    assert (result == torch.add(x, y)).all()
    y.add_(x)
    assert (result == y).all() and x[:, 1].shape == (5,)
    z = x.view(-1, 5)
    assert z.size() == (3, 5) and x.view(15).size(0) == 15
    one = torch.randn(1)
    assert isinstance(one.item(), float)
    a = torch.ones(5)
    b = a.numpy()
    a.add_(1)
    assert b.tolist() == [2] * 5
    c = np.ones(5)
    d = torch.from_numpy(c)
    np.add(c, 1, out=c)
    assert d.tolist() == [2] * 5
    if torch.cuda.is_available():
        device = torch.device("cuda")
        a = torch.ones_like(a, device=device) + a.to(device)
        a = a.to("cpu", torch.double)
    tensor = torch.tensor([[1, 2], [3, 4]])
    assert tensor.sum().item() == 10 and torch.cat([tensor, tensor], dim=1).shape == (2, 4)
    assert (tensor.matmul(tensor.T) == tensor @ tensor.T).all()
    product = torch.rand_like(tensor, dtype=torch.float)
    torch.matmul(tensor, tensor.T, out=product)
    assert product.tolist() == [[5, 11], [11, 25]]
    tensor[:, 1] = 0
    assert tensor.tolist() == [[1, 0], [3, 0]]


def test_first_steps_with_autograd() -> None:
    x = torch.ones(2, 2, requires_grad=True)
    y = x + 2
    z = y * y * 3
    out = z.mean()
    assert "AddBackward0" in str(y.grad_fn) and "MeanBackward0" in repr(out)
    out.backward()
    assert x.grad is not None and x.grad.tolist() == [[4.5, 4.5], [4.5, 4.5]]
    a = torch.randn(2, 2)
    a = (a * 3) / (a - 1)
    assert not a.requires_grad
    a.requires_grad_(True)
    assert (a * a).sum().grad_fn is not None
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 2
    while y.data.norm() < 1000:
        y = y * 2
    y.backward(torch.tensor([0.1, 1.0, 0.0001]))
    factor = float(y.data[0])
    np.testing.assert_allclose(x.grad.numpy(), np.array([0.1, 1.0, 0.0001]) * factor, rtol=1e-6)
    with torch.no_grad():
        assert not (x**2).requires_grad
    assert not x.detach().requires_grad and x.eq(x.detach()).all()


def test_vector_jacobian_products_add_up() -> None:
    inp = torch.eye(4, 5, requires_grad=True)
    out = (inp + 1).pow(2).t()
    out.backward(torch.ones_like(out), retain_graph=True)
    first = inp.grad.clone()
    out.backward(torch.ones_like(out), retain_graph=True)
    assert (inp.grad == 2 * first).all()
    inp.grad.zero_()
    out.backward(torch.ones_like(out))
    assert (inp.grad == first).all()


def test_logistic_loss_and_its_graph() -> None:
    x, y = torch.ones(5), torch.zeros(3)
    w = torch.randn(5, 3, requires_grad=True)
    b = torch.randn(3, requires_grad=True)
    z = torch.matmul(x, w) + b
    loss = F.binary_cross_entropy_with_logits(z, y)
    assert z.grad_fn is not None and loss.grad_fn is not None
    loss.backward()
    np.testing.assert_allclose(b.grad.numpy(), z.detach().sigmoid().numpy() / 3, rtol=1e-5)
    assert w.grad.shape == (5, 3)


# -- control flow and weight sharing --------------------------------------------------------------


class DynamicNet(nn.Module):
    """A hidden layer that is used none to three more times, as the dice will have it."""

    def __init__(self, d_in: int, h: int, d_out: int) -> None:
        super().__init__()
        self.input_linear = nn.Linear(d_in, h)
        self.middle_linear = nn.Linear(h, h)
        self.output_linear = nn.Linear(h, d_out)

    def forward(self, x: Any) -> Any:
        h_relu = self.input_linear(x).clamp(min=0)
        for _ in range(random.randint(0, 3)):
            h_relu = self.middle_linear(h_relu).clamp(min=0)
        return self.output_linear(h_relu)


def test_control_flow_and_weight_sharing() -> None:
    torch.manual_seed(0)
    random.seed(0)
    x, y = torch.randn(16, 10), torch.randn(16, 2)
    model = DynamicNet(10, 20, 2)
    criterion = nn.MSELoss(reduction="sum")
    optimizer = optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    losses = []
    for _ in range(250):
        loss = criterion(model(x), y)
        losses.append(loss.item())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert np.mean(losses[-20:]) < 0.3 * losses[0]


# -- sequences ------------------------------------------------------------------------------------


class RNN(nn.Module):
    def __init__(self, input_size: int, hidden_size: int, output_size: int) -> None:
        super().__init__()
        self.hidden_size = hidden_size
        self.i2h = nn.Linear(input_size + hidden_size, hidden_size)
        self.h2o = nn.Linear(hidden_size, output_size)

    def forward(self, input: Any, hidden: Any) -> Any:
        hidden = self.i2h(torch.cat((input, hidden), 1)).tanh()
        return self.h2o(hidden), hidden

    def init_hidden(self) -> Any:
        return torch.zeros(1, self.hidden_size)


def test_sequences_of_various_lengths() -> None:
    """Which of three letters comes most often?"""
    torch.manual_seed(0)
    draw = random.Random(0)
    rnn = RNN(3, 12, 3)
    criterion = nn.CrossEntropyLoss()
    losses = []
    for _ in range(300):
        letters = [draw.randrange(3) for _ in range(draw.choice((3, 5, 7)))]
        target = torch.tensor([max(range(3), key=letters.count)])
        line = torch.zeros(len(letters), 1, 3)
        for position, letter in enumerate(letters):
            line[position][0][letter] = 1
        hidden = rnn.init_hidden()
        rnn.zero_grad()
        for i in range(line.size()[0]):
            output, hidden = rnn(line[i], hidden)
        loss = criterion(output, target)
        loss.backward()
        for p in rnn.parameters():
            p.data.add_(p.grad.data, alpha=-0.05)
        losses.append(loss.item())
    assert np.mean(losses[-50:]) < 0.8 * np.mean(losses[:20])


def test_truncated_backpropagation_through_time() -> None:
    torch.manual_seed(0)
    rnn, steps = RNN(1, 16, 1), torch.arange(400.0) / 5
    wave = torch.sin(steps).reshape(-1, 1, 1)
    optimizer = optim.Adam(rnn.parameters(), lr=0.02)
    hidden = rnn.init_hidden()
    losses = []
    for begin in range(0, 380, 10):
        hidden = hidden.detach()  # the graph of the chunks before ends here
        loss = torch.zeros(())
        for t in range(begin, begin + 10):
            output, hidden = rnn(wave[t], hidden)
            loss = loss + (output - wave[t + 1]).pow(2).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert np.mean(losses[-5:]) < 0.2 * np.mean(losses[:3])
    with pytest.raises(torch.AutogradError, match="second time"):
        (rnn(wave[0], hidden)[0].sum()).backward()


# -- images ---------------------------------------------------------------------------------------


class LeNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(1, 6, 5)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 4 * 4, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x: Any) -> Any:
        x = F.max_pool2d(F.relu(self.conv1(x)), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, self.num_flat_features(x))
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.fc3(x)

    def num_flat_features(self, x: Any) -> int:
        features = 1
        for size in x.size()[1:]:
            features *= size
        return features


def test_a_convolutional_network() -> None:
    torch.manual_seed(0)
    net = LeNet()
    assert len(list(net.parameters())) == 10 and net.conv1.weight.size() == (6, 1, 5, 5)
    draw = np.random.default_rng(0)
    labels = draw.integers(0, 10, 64)
    patterns = draw.standard_normal((10, 1, 28, 28))
    images = torch.tensor(patterns[labels] + 0.3 * draw.standard_normal((64, 1, 28, 28))).float()
    target = torch.from_numpy(labels)
    net.zero_grad()
    net(images[:2]).backward(torch.randn(2, 10))
    assert net.conv1.bias.grad is not None and bool((net.conv1.bias.grad != 0).any())
    criterion, optimizer = nn.CrossEntropyLoss(), optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    for epoch in range(40):
        running_loss = 0.0
        for inputs, wanted in zip(images.split(16), target.split(16), strict=True):
            optimizer.zero_grad()
            loss = criterion(net(inputs), wanted)
            loss.backward()
            optimizer.step()
            running_loss += loss.item()
        if epoch == 0:
            first = running_loss
    assert running_loss < 0.1 * first
    with torch.no_grad():
        _, predicted = torch.max(net(images), 1)
        assert (predicted == target).sum().item() > 60
