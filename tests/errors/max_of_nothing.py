# raises DimRangeError
# says max(f32[3, 0]): the extreme of nothing: dim 1 of f32[3, 0] has size 0
import staticflow as sf

x = sf.ones(3, 0)
x.max()  # <-- error
