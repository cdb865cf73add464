"""What ops are declared with: type rules, kinds of lowering, dtypes that meet, sizes."""
