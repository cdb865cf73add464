"""What each operation of ATen means here, by kind."""
