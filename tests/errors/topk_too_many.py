# raises ShapeError
# says topk(f32[3]): dim 0 of f32[3], where k is 4: 3 is too small
import staticflow as sf

x = sf.tensor([1.0, 2.0, 3.0])
x.topk(4)  # <-- error
