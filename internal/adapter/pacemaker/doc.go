// Package pacemaker is the adapter of Corosync and Pacemaker: the membership,
// what a host publishes to the other, and the few orders that a host may give.
// It uses their own tools and returns state types; it never decides.
package pacemaker
