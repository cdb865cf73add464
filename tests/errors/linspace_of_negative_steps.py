# raises ShapeError
# says linspace: -1 steps; give 0 or more
import staticflow as sf

sf.linspace(0, 1, -1)  # <-- error
