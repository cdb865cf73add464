# raises ShapeError
# says einsum('ij,jk->ik'): the dim 'j' has the sizes 3 and 4
import staticflow as sf

sf.einsum("ij,jk->ik", sf.ones(2, 3), sf.ones(4, 5))  # <-- error
