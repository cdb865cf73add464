# raises DTypeError
# says dropout: of int64; cast it to a floating dtype
import staticflow as sf

sf.nn.functional.dropout(sf.arange(3), 0.5)  # <-- error
