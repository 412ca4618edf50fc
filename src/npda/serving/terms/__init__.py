"""Lists of terms that people share, what the models have learnt of them, and the terms of a request."""
