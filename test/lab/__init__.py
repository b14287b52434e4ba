"""A small real cluster on one machine, for tests: `cluster --help` says what it can do.

Every node (ctl, n1 … nN) has namespaces of its own (network, UTS, IPC, mount, PID), held by one sleeping process that is
the node's PID 1. In a node: its own host name, addresses, loopback, /proc, /sys, /run, /dev/shm, /etc/hosts, machine-id and
boot_id, and a real sshd. The switch between them is one more network namespace with a bridge. Nothing is added to the
machine's own network, /etc or /run, so any number of labs, each with a directory of its own, can be up at once.
"""
