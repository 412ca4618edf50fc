"""What is run to show or to measure something."""
