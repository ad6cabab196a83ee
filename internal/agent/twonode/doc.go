// Package twonode carries out the steps that put kubelet and etcd of two
// hosts under Pacemaker (`holdfast-agent two-node STEP`). What is wanted and
// which commands bring it is decided by internal/decide/twonode; here it is
// done. A step may be killed at any line and run again.
package twonode
