// Package harness tries the stand-in vote, and what it replaces, on real etcd
// processes: two members with TLS on two addresses of a network namespace of
// the test's own, where links are cut by nftables and hosts die by SIGKILL.
// All of it is in the tests; ../README.md says how to run them and what they
// have shown.
package harness
