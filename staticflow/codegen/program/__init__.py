"""From a fused graph to a program: its kernels, and the steps and places in which they run."""
