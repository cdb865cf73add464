"""What ``torch.autograd.graph`` has: hooks on what is saved for backward."""

from staticflow.eager.saved_hooks import save_on_cpu, saved_tensors_hooks

__all__ = ["save_on_cpu", "saved_tensors_hooks"]
