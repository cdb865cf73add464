# raises ArgumentError
# says betas are two numbers, as (0.9, 0.999), not 0.9
import staticflow as sf

sf.optim.Adam(sf.nn.Linear(2, 2).parameters(), betas=0.9)  # <-- error
