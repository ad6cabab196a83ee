// Package twonode carries out the steps that put kubelet and etcd of two hosts
// under Pacemaker (`holdfast-agent two-node STEP`). internal/decide/twonode
// decides what is wanted and which commands bring it; this package runs them. A
// step may be killed at any line and run again.
package twonode
