# raises UndefinedError
# says kl_divergence: no formula is registered for Laplace and Normal; write one with register_kl
import staticflow as sf

D = sf.distributions
D.kl_divergence(D.Laplace(0.0, 1.0), D.Normal(0.0, 1.0))  # <-- error
