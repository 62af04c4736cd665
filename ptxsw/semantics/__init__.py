"""What PTX instructions compute: one function per opcode over an abstract algebra."""
