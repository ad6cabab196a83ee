// Package access has the tests of what each account of the cluster may do. It
// looks at all rights that an installation gives, as they are rendered, and
// tries them against a real API server: who is root on a worker has every
// account whose pods may run there, and must get no further.
package access
