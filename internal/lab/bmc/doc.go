// Package bmc simulates the management controller of one machine: a Redfish
// service over HTTPS that switches a Machine. The faults of real controllers
// are switches (Quirks) that can be thrown while it runs.
//
// The power of the machine is a state machine without effects (Step in
// state.go); one goroutine at a time carries its effects out, in the order in
// which they were decided. The service never says Off before the machine was
// cut, unless the quirk "says" or "off-leads" makes it lie.
//
// The package stands for hardware. It must never know anything of clusters,
// nodes or fencing.
package bmc
