"""Models and how they are trained."""

from __future__ import annotations

import copy
import math

import numpy as np
from programs.given import drawn, filled

import staticflow as torch
import staticflow.nn.functional as F
from staticflow import nn, optim


def gan_step(log, refused):
    G = filled(nn.Sequential(nn.Linear(3, 8), nn.LeakyReLU(0.2), nn.Linear(8, 2), nn.Tanh()))
    D = filled(
        nn.Sequential(
            nn.Linear(2, 8), nn.LeakyReLU(0.2, inplace=True), nn.Linear(8, 1), nn.Sigmoid()
        ),
        1,
    )
    og = optim.Adam(G.parameters(), lr=0.01, betas=(0.5, 0.999))
    od = optim.Adam(D.parameters(), lr=0.01, betas=(0.5, 0.999))
    crit = nn.BCELoss()
    for i in range(5):
        real = drawn(4, 2, seed=i)
        z = drawn(4, 3, seed=i + 10)
        D.zero_grad()
        label = torch.full((4,), 1.0, dtype=torch.float)
        out = D(real).view(-1)
        errD_real = crit(out, label)
        errD_real.backward()
        D_x = out.mean().item()
        fake = G(z)
        label.fill_(0.0)
        out = D(fake.detach()).view(-1)
        errD_fake = crit(out, label)
        errD_fake.backward()
        errD = errD_real + errD_fake
        od.step()
        G.zero_grad()
        label.fill_(1.0)
        out = D(fake).view(-1)
        errG = crit(out, label)
        errG.backward()
        og.step()
        log(errD, errG, D_x)
    log([p for p in G.parameters()], [p.grad for p in D.parameters()])


def penalty_of(D):
    x = drawn(5, 3, seed=77, grad=True)
    d = D(x).sum()
    (g,) = torch.autograd.grad(d, x, create_graph=True)
    return (g**2).sum()


def gradient_penalty(log, refused):
    D = filled(
        nn.Sequential(
            nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 6), nn.LeakyReLU(0.1), nn.Linear(6, 1)
        )
    )
    opt = optim.RMSprop(D.parameters(), lr=0.001)
    for i in range(4):
        real, fake = (drawn(5, 3, seed=i), drawn(5, 3, seed=i + 9))
        eps = torch.from_numpy(
            np.random.default_rng(i).random((5, 1)).astype(np.float32)
        ).expand_as(real)
        inter = (eps * real + (1 - eps) * fake).requires_grad_(True)
        d = D(inter)
        g = torch.autograd.grad(
            outputs=d,
            inputs=inter,
            grad_outputs=torch.ones(d.size()),
            create_graph=True,
            retain_graph=True,
            only_inputs=True,
        )[0]
        g = g.view(g.size(0), -1)
        gp = ((g.norm(2, dim=1) - 1) ** 2).mean() * 10
        loss = D(fake).mean() - D(real).mean() + gp
        opt.zero_grad()
        loss.backward()
        opt.step()
        log(gp, loss, [p.grad for p in D.parameters()])
    per = torch.autograd.grad(penalty_of(D), list(D.parameters()), allow_unused=True)
    log([None if p is None else p for p in per])


def weight_tying(log, refused):

    class LM(nn.Module):
        def __init__(self):
            super().__init__()
            self.emb = nn.Embedding(7, 4)
            self.rnn = nn.GRU(4, 4, batch_first=True)
            self.out = nn.Linear(4, 7)
            self.out.weight = self.emb.weight

        def forward(self, x, h=None):
            y, h = self.rnn(self.emb(x), h)
            return (self.out(y), h)

    m = filled(LM())
    log(len(list(m.parameters())), sorted(m.state_dict().keys()), m.out.weight is m.emb.weight)
    x = torch.tensor([[1, 2, 3], [4, 5, 6]])
    y = torch.tensor([[2, 3, 0], [5, 6, 1]])
    opt = optim.SGD(m.parameters(), lr=0.1, momentum=0.9)
    for _ in range(4):
        out, h = m(x)
        loss = F.cross_entropy(out.view(-1, 7), y.view(-1))
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(m.parameters(), 0.5)
        opt.step()
        log(loss)
    log(m.emb.weight.grad, h)
    c = copy.deepcopy(m)
    log(c.out.weight is c.emb.weight, len(list(c.parameters())))
    log(sum(p.numel() for p in m.parameters() if p.requires_grad))


def tbptt(log, refused):
    cell = filled(nn.LSTMCell(2, 3))
    head = filled(nn.Linear(3, 1), 2)
    opt = optim.Adagrad(list(cell.parameters()) + list(head.parameters()), lr=0.05)
    h = torch.zeros(2, 3)
    c = torch.zeros(2, 3)
    xs = drawn(12, 2, 2)
    ys = drawn(12, 2, 1, seed=4)
    for t0 in range(0, 12, 4):
        h, c = (h.detach(), c.detach())
        loss = 0
        for t in range(t0, t0 + 4):
            h, c = cell(xs[t], (h, c))
            loss = loss + F.mse_loss(head(h), ys[t])
        opt.zero_grad()
        loss.backward()
        opt.step()
        log(loss, h)
    refused(lambda: loss.backward())


def checkpoint_resume(log, refused):

    def make():
        m = filled(nn.Linear(3, 2))
        o = optim.Adam(m.parameters(), lr=0.1)
        s = optim.lr_scheduler.StepLR(o, 2, 0.5)
        return (m, o, s)

    def step(m, o, s, i):
        loss = (m(drawn(4, 3, seed=i)) ** 2).mean()
        o.zero_grad()
        loss.backward()
        o.step()
        s.step()
        return loss

    m, o, s = make()
    for i in range(3):
        step(m, o, s, i)
    sd = copy.deepcopy({"m": m.state_dict(), "o": o.state_dict(), "s": s.state_dict(), "epoch": 3})
    a = [step(m, o, s, i) for i in range(3, 6)]
    m2, o2, s2 = make()
    m2.load_state_dict(sd["m"])
    o2.load_state_dict(sd["o"])
    s2.load_state_dict(sd["s"])
    b = [step(m2, o2, s2, i) for i in range(sd["epoch"], 6)]
    log(
        a,
        b,
        o.param_groups[0]["lr"],
        s.get_last_lr(),
        sorted(sd["o"].keys()),
        sorted(sd["o"]["state"][0].keys()),
    )
    refused(lambda: nn.Linear(2, 2).load_state_dict(sd["m"]))
    r = nn.Sequential(nn.Linear(3, 2)).load_state_dict({"x": torch.ones(1)}, strict=False)
    log(r.missing_keys, r.unexpected_keys)
    refused(lambda: nn.Sequential(nn.Linear(3, 2)).load_state_dict(sd["m"]))


def param_options_freeze(log, refused):
    m = filled(nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)))
    for p in m[0].parameters():
        p.requires_grad = False
    opt = optim.SGD(
        [{"params": m[2].weight, "lr": 0.5}, {"params": [m[2].bias], "weight_decay": 0.1}],
        lr=0.1,
        momentum=0.5,
    )
    sch = optim.lr_scheduler.LambdaLR(opt, lr_lambda=[lambda e: 0.9**e, lambda e: 1 / (e + 1)])
    before = [p.clone() for p in m[0].parameters()]
    for i in range(3):
        loss = F.cross_entropy(m(drawn(4, 3, seed=i)), torch.tensor([0, 1, 1, 0]))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sch.step()
    log(
        [torch.equal(a, b) for a, b in zip(before, m[0].parameters(), strict=False)],
        [p.grad is None for p in m.parameters()],
        [g["lr"] for g in opt.param_groups],
        [p for p in m[2].parameters()],
    )
    opt.add_param_group({"params": m[0].parameters(), "lr": 0.001})
    log(len(opt.param_groups), [len(g["params"]) for g in opt.param_groups])
    refused(lambda: opt.add_param_group({"params": m[2].weight}))
    refused(lambda: optim.SGD([], lr=0.1))
    refused(lambda: optim.SGD(m.parameters(), lr=-1.0))
    refused(lambda: optim.SGD([torch.ones(2, requires_grad=True) * 2], lr=0.1))


def schedules(log, refused):
    w = nn.Parameter(torch.ones(1))

    def run(make, n=7):
        o = optim.SGD([w], lr=0.1)
        s = make(o)
        r = []
        for _ in range(n):
            o.step()
            s.step()
            r.append(o.param_groups[0]["lr"])
        return r

    S = optim.lr_scheduler
    log(
        run(lambda o: S.CosineAnnealingLR(o, 5, eta_min=0.001)),
        run(lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2)),
        run(lambda o: S.OneCycleLR(o, 0.5, total_steps=8)),
        run(lambda o: S.ExponentialLR(o, 0.9)),
        run(lambda o: S.MultiStepLR(o, [2, 4], 0.1)),
        run(
            lambda o: S.SequentialLR(
                o, [S.LinearLR(o, 0.1, total_iters=3), S.CosineAnnealingLR(o, 4)], milestones=[3]
            )
        ),
        run(lambda o: S.PolynomialLR(o, 5, 2.0)),
        run(lambda o: S.CyclicLR(o, 0.01, 0.1, 2)),
    )
    o = optim.SGD([w], lr=0.1)
    s = S.ReduceLROnPlateau(o, "min", patience=1, factor=0.5)
    r = []
    for v in [1, 0.9, 0.95, 0.93, 0.92, 0.8, 0.8, 0.8]:
        s.step(v)
        r.append(o.param_groups[0]["lr"])
    log(r)
    o = optim.SGD([w], lr=0.1)
    s = S.StepLR(o, 1)
    s.step()
    log(o.param_groups[0]["lr"])
    o = optim.SGD([w], lr=0.1)
    base = 0.1
    for e in range(5):
        lr = 0.5 * base * (1 + math.cos(math.pi * e / 5))
        for g in o.param_groups:
            g["lr"] = lr
    log(o.param_groups[0]["lr"])


def vae(log, refused):

    class VAE(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc1 = nn.Linear(6, 5)
            self.fc21 = nn.Linear(5, 2)
            self.fc22 = nn.Linear(5, 2)
            self.fc3 = nn.Linear(2, 5)
            self.fc4 = nn.Linear(5, 6)

        def encode(self, x):
            h1 = F.relu(self.fc1(x))
            return (self.fc21(h1), self.fc22(h1))

        def reparameterize(self, mu, logvar, eps):
            std = torch.exp(0.5 * logvar)
            return mu + eps * std

        def decode(self, z):
            return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

        def forward(self, x, eps):
            mu, lv = self.encode(x.view(-1, 6))
            return (self.decode(self.reparameterize(mu, lv, eps)), mu, lv)

    m = filled(VAE())
    o = optim.Adam(m.parameters(), lr=0.01)
    for i in range(3):
        x = torch.sigmoid(drawn(4, 2, 3, seed=i))
        r, mu, lv = m(x, drawn(4, 2, seed=i + 5))
        loss = F.binary_cross_entropy(r, x.view(-1, 6), reduction="sum") + -0.5 * torch.sum(
            1 + lv - mu.pow(2) - lv.exp()
        )
        o.zero_grad()
        loss.backward()
        o.step()
        log(loss, mu)
    log([p.grad for p in m.parameters()])


def resnet_block(log, refused):

    class Block(nn.Module):
        def __init__(self, ci, co, stride=1):
            super().__init__()
            self.c1 = nn.Conv2d(ci, co, 3, stride, 1, bias=False)
            self.b1 = nn.BatchNorm2d(co)
            self.c2 = nn.Conv2d(co, co, 3, 1, 1, bias=False)
            self.b2 = nn.BatchNorm2d(co)
            self.relu = nn.ReLU(inplace=True)
            self.short = nn.Sequential()
            if stride != 1 or ci != co:
                self.short = nn.Sequential(
                    nn.Conv2d(ci, co, 1, stride, bias=False), nn.BatchNorm2d(co)
                )

        def forward(self, x):
            out = self.relu(self.b1(self.c1(x)))
            out = self.b2(self.c2(out))
            out += self.short(x)
            return self.relu(out)

    m = filled(
        nn.Sequential(
            Block(2, 4, 2), Block(4, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
        )
    )
    o = optim.SGD(m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.0005, nesterov=True)
    for i in range(3):
        loss = F.cross_entropy(m(drawn(2, 2, 6, 6, seed=i)), torch.tensor([0, 2]))
        o.zero_grad()
        loss.backward()
        o.step()
        log(loss)
    m.eval()
    log(m(drawn(2, 2, 6, 6)), m[0].b1.running_mean, m[0].b1.num_batches_tracked)
    x = drawn(1, 2, 4, 4, grad=True)
    d = nn.ConvTranspose2d(2, 3, 3, 2, 1, 1)
    filled(d)
    y = d(x)
    y.sum().backward()
    log(
        y,
        x.grad,
        list(F.conv1d(drawn(1, 2, 5), drawn(3, 2, 2)).shape),
        F.conv2d(drawn(1, 4, 4, 4), drawn(4, 2, 2, 2), groups=2, dilation=2),
    )


def gram_style(log, refused):

    def gram(y):
        b, ch, h, w = y.size()
        f = y.view(b, ch, w * h)
        return f.bmm(f.transpose(1, 2)) / (ch * h * w)

    img = drawn(1, 2, 4, 4, grad=True)
    style = drawn(1, 2, 4, 4, seed=3)
    conv = filled(nn.Conv2d(2, 3, 3, padding=1))
    for p in conv.parameters():
        p.requires_grad_(False)
    opt = optim.LBFGS([img], max_iter=4)
    n = [0]

    def closure():
        with torch.no_grad():
            img.clamp_(-1.5, 1.5)
        opt.zero_grad()
        loss = F.mse_loss(gram(conv(img)), gram(conv(style)))
        loss.backward()
        n[0] += 1
        return loss

    for _ in range(2):
        opt.step(closure)
    log(img, closure())
    tv = (img[:, :, 1:] - img[:, :, :-1]).abs().mean() + (img[..., 1:] - img[..., :-1]).abs().mean()
    log(tv)
