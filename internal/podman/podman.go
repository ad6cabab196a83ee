// Package podman runs the one container that a host runs without a cluster:
// etcd. What podman keeps about it is never asked on the way to a decision;
// whether it runs is read from /proc, without starting anything.
package podman
