// Package pacemaker holds recorded states of Corosync and Pacemaker, and what
// the status of the PacemakerCluster has to be in each: one folder for a case,
// in it one for each host that was asked, with what crm_mon and corosync.conf
// said there. simulate.sh makes those that need no lab; `go run
// ./test/corpus/pacemaker/record` takes them from one.
package pacemaker
