"""From a graph of whole tensors to that of one process of a mesh, which computes its part."""
