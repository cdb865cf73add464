"""What ops are declared with: type rules, forms of lowering, dtypes that meet, sizes."""
