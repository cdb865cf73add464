# raises ArgumentError
# says dropout
# says from 0 to 1, not 50
import staticflow as sf

sf.nn.functional.dropout(sf.ones(3), 50)  # <-- error
