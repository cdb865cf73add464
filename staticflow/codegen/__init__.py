"""From fused graphs to Kernel IR, its schedules, and the text of both back ends."""
