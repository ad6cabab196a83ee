// Package harness tests the stand-in, and what it replaces, on real etcd
// processes: two members with TLS on two addresses in a network namespace of
// the test's own. nftables cuts links, and SIGKILL ends hosts. The package has
// only tests; ../README.md says how to run them and what they have shown.
package harness
