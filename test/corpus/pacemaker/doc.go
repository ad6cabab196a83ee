// Package pacemaker holds recorded states of Corosync and Pacemaker, and the
// right status of the PacemakerCluster for each. A case has a folder, with one
// folder for each host that was asked, which holds the output of crm_mon and
// corosync.conf there. simulate.sh makes the cases that need no lab; `go run
// ./test/corpus/pacemaker/record` records them from a lab.
package pacemaker
