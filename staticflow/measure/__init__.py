"""What programs do and cost: explanations, profiles, bytes and operations, the machine's limits."""
