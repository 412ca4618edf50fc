"""More than one machine: a Ray cluster builds, searches and serves. Extra ``npda[cluster]``."""
