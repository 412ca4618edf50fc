"""More than one machine: a Ray cluster builds, searches and runs stages. Extra ``npda[cluster]``."""
