"""The CUDA renderer: kernels as CUDA C."""
