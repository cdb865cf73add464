"""Beam search as a loop of the graph: the best few words, kept letter by letter.

Every step extends each of the best words by every letter and keeps the best of those; it ends when
the best one ends, after as many steps as that takes. The model is a table of which letter follows
which, counted from a few names.
"""

from itertools import pairwise

import staticflow as sf

TEXT = "anna.hanna.johanna.nora.norah.leonora.theo.theodora.dora.isidora.jonathan.nathan.ian."
LETTERS = sorted(set(TEXT))
END, BEAM, LONGEST = LETTERS.index("."), 4, 20
NOTHING = sf.arange(len(LETTERS)) == END  # what may follow the end


def counted():
    """log P(next letter | letter)."""
    counts = sf.full((len(LETTERS), len(LETTERS)), 0.01)
    for a, b in pairwise(TEXT):
        counts[LETTERS.index(a), LETTERS.index(b)] += 1
    return (counts / counts.sum(dim=1, keepdim=True)).log()


def search(scores, first):
    """The number of steps, words (BEAM, LONGEST) that begin with ``first``, log-probabilities."""
    text = sf.zeros(BEAM, LONGEST).long() + END
    column = sf.arange(LONGEST)
    text = sf.where(column == 0, first, text)
    best = sf.where(sf.arange(BEAM) == 0, 0.0, -1e9)  # they are all the same to begin with

    def unfinished(t, text, best):
        return (t < LONGEST) & (text[0].gather(0, (t - 1).reshape(1)).sum() != END)

    def extend(t, text, best):
        last = text.gather(1, (t - 1).expand(BEAM, 1)).squeeze(1)
        step = sf.where((last == END).unsqueeze(1), sf.where(NOTHING, 0.0, -1e9), scores[last])
        best, chosen = (best.unsqueeze(1) + step).flatten().topk(BEAM)
        text = text[chosen // len(LETTERS)]
        return t + 1, sf.where(column == t, (chosen % len(LETTERS)).unsqueeze(1), text), best

    return sf.while_loop(unfinished, extend, (sf.tensor(1), text, best))


def main() -> None:
    scores = counted()
    table, first = sf.placeholder(scores.shape, name="table"), sf.placeholder((), "int64", "first")
    program = sf.compile([table, first], search(table, first))
    for letter in "tjl":
        number = LETTERS.index(letter)
        steps, text, best = program(scores, number)
        words = ["".join(LETTERS[i] for i in row).rstrip(".") for row in text.tolist()]
        print(f"{letter}: {words}, {steps.item()} steps, best {best[0].item():.3f}")
        _, eager, _ = search(scores, sf.tensor(number))
        assert sf.equal(eager, text)


if __name__ == "__main__":
    main()
