"""Terms: how the model renders the words of a list, and what people want to read instead."""
