"""The subcommands of `engine-operator`, one module each; none but `run` changes anything."""
