// Package redfish switches one machine through its management controller, by
// Redfish. It is the only importer of a Redfish library.
//
// It says what a controller answers and decides nothing. Only ConfirmOff
// proves that a machine is off: that a request was accepted, or refused, says
// nothing about what happened. Every call ends within the endpoint's timeout,
// whatever the controller does, and no error holds a user name or password.
package redfish
