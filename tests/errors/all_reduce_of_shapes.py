# raises RankError
# says all_reduce
# says f32[1]
# says f32[2]
# says every rank must run the same program
import staticflow as sf
from staticflow import distributed


def run():
    mesh = distributed.mesh(data=-1)
    distributed.all_reduce(sf.ones(1 + mesh.rank), mesh)  # <-- error


distributed.simulate(run, 2)
