# raises ShapeError
# says scan: the taps of 'xs' reach 9 iterations back, and the xs have 4 rows
import staticflow as sf

sf.scan(lambda c, x: (c, x[0]), (), sf.ones(4), taps={"xs": (9,)})  # <-- error
