// Package access has what root on a worker asks of the API server to get
// further than his host (Attempts), and the tests of what each account of the
// cluster may do. They look at all rights that an installation gives, as they
// are rendered, and try them against a real API server: who is root on a worker
// has every account whose pods may run there, and must get no further. The same
// attempts are made by the hostile worker of test/hostile, on a whole cluster.
package access
