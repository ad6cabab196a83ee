// Package pacemaker is the adapter of Corosync and Pacemaker: who is in the
// membership, what a host says to the other, and the few orders that a host
// may give. It asks through their own tools and returns state types; it never
// decides.
package pacemaker
