# raises ShapeError
# says topk(f32[3]): k is 4, of 3 elements along dim 0
import staticflow as sf

x = sf.tensor([1.0, 2.0, 3.0])
x.topk(4)  # <-- error
