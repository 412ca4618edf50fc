"""More than one machine: a Ray cluster builds and searches. Extra ``npda[cluster]``."""
