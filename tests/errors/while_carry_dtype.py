# raises DTypeError
# says while_loop: carry[0] came in as i64[] and went out as f32[], carry[1]['h'] came in as f32[2]
# says went out as f32[3]; every iteration must give it back as it was
import staticflow as sf

x = sf.placeholder((2,), name="x")
sf.while_loop(  # <-- error
    lambda n, s: n < 3, lambda n, s: (n * 0.5, {"h": sf.cat([s["h"], s["h"][:1]])}), (0, {"h": x})
)
