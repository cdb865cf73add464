# raises DimRangeError
# says argmax
# says the extreme of nothing: dim 1 of f32[3, 0] has size 0
import staticflow as sf

x = sf.ones(3, 0)
x.argmax(1)  # <-- error
