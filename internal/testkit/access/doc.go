// Package access holds the requests that root on a worker makes to the API
// server to get beyond his host (Attempts), and the tests of the rights of each
// account of the cluster. The tests check all rights that an installation
// gives, as they are rendered, and try them against a real API server. Root on
// a worker has every account whose pods may run there, and must get no further.
// The hostile worker of test/hostile makes the same attempts on a whole
// cluster.
package access
