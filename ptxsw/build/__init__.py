"""The wrapper around ptxas in a build: the shim and its script, results cached between builds,
reports, shadow toolkits, doctor."""
