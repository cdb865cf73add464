"""Programs on GPUs: what a device can do, how cupy does it, and the run of a program by it, kernel
by kernel or as captured graphs."""
