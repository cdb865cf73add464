"""Derivatives under PyTorch's names: what ``torch.autograd`` has."""

from staticflow.autograd import functional, graph
from staticflow.autograd.function import Function, FunctionCtx
from staticflow.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from staticflow.autograd.gradients import backward, grad
from staticflow.autograd.once import once_differentiable
from staticflow.eager.anomaly import detect_anomaly, is_anomaly_enabled, set_detect_anomaly
from staticflow.eager.grad_mode import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from staticflow.eager.inference import inference_mode, is_inference_mode_enabled
from staticflow.eager.legacy import Variable
from staticflow.ops.declaring.foreign import refuses_foreign_in

__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "Variable", "backward", "detect_anomaly",
    "enable_grad", "functional", "grad", "gradcheck", "gradgradcheck", "graph", "inference_mode",
    "is_anomaly_enabled", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "once_differentiable", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip

refuses_foreign_in(globals())
