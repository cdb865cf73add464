# raises NestingError
# says a list lies within 100 others, and no more may be in each other
# says give its leaves in one list
import staticflow as sf

tree = sf.ones(2)
for _ in range(1000):
    tree = [tree]
step = sf.jit(lambda tree: sf.ones(2))
step(tree)  # <-- error
