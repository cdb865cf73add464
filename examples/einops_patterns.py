"""A vision transformer whose shapes are einops patterns: patches, heads and the mean over tokens,
eagerly and as a graph whose image and batch sizes are open.

Needs ``pip install "staticflow[einops]"``.
"""

import math

from einops import einsum, rearrange, reduce, repeat

import staticflow as sf
from staticflow.einops.layers import EinMix, Rearrange

DIM, HEADS, PATCH = 16, 4, 4

example_inputs = ("images: f32[N=6, 1, 8, 8]", "labels: i64[N] < 10")
loss = sf.nn.functional.cross_entropy


class Classifier(sf.nn.Module):
    """Patches of an image to scores of ten classes."""

    def __init__(self):
        super().__init__()
        self.patches = sf.nn.Sequential(
            Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=PATCH, q=PATCH),
            sf.nn.Linear(PATCH * PATCH, DIM),
        )
        self.first = sf.nn.Parameter(sf.zeros(DIM))
        self.to_qkv = sf.nn.Linear(DIM, 3 * DIM, bias=False)
        self.to_out = EinMix("b h t d -> b t c", "h d c", "c", h=HEADS, d=DIM // HEADS, c=DIM)
        self.head = sf.nn.Linear(DIM, 10)

    def attend(self, x):
        """Attention of all tokens to all, in heads."""
        q, k, v = rearrange(self.to_qkv(x), "b t (n h d) -> n b h t d", n=3, h=HEADS)
        scores = einsum(q, k, "b h i d, b h j d -> b h i j") / math.sqrt(DIM // HEADS)
        return self.to_out(einsum(scores.softmax(-1), v, "b h i j, b h j d -> b h i d"))

    def forward(self, images):
        x = self.patches(images)
        first = repeat(self.first, "c -> b 1 c", b=x.shape[0])
        x = sf.cat([first, x], dim=1)
        return self.head(reduce(x + self.attend(x), "b t c -> b c", "mean"))


def main() -> None:
    """One model in both modes, and a mistake."""
    sf.manual_seed(0)
    model = Classifier()
    images, labels = sf.randn(6, 1, 8, 8), sf.tensor([0, 1, 2, 3, 4, 5])
    eager = loss(model(images), labels)
    eager.backward()

    x = sf.placeholder((None, 1, "height", "width"), name="x")
    y = sf.placeholder((None,), "int64", name="y")
    own = loss(model(x), y)
    f = sf.compile([x, y], [own, sf.grad(own, model.first)])
    value, gradient = f(images, labels)
    print("the same loss:", sf.allclose(value, eager))
    print("the same gradient:", sf.allclose(gradient, model.first.grad, atol=1e-6))
    print("larger images, same program:", f(sf.randn(2, 1, 12, 16), labels[:2])[1].shape)
    try:
        f(sf.randn(2, 1, 10, 8), labels[:2])
    except sf.ShapeError as error:
        print("refused:", str(error).split(", at")[0])


if __name__ == "__main__":
    main()
