"""Standing in for ptxas in a build: the shim and its script, answers kept from build to build,
reports, shadow toolkits, doctor."""
