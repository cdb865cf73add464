"""From a cluster to a kernel: `cluster` asks the module of its kind."""
