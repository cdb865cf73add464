# raises DTypeError
# says LambdaLR: lr_lambda must be a function of the epoch, not 0.9
import staticflow as sf

opt = sf.optim.SGD([sf.nn.Parameter([1.0])], 0.1)
sf.optim.lr_scheduler.LambdaLR(opt, 0.9)  # <-- error
