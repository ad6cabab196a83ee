// Package redfish switches one machine through its management controller, by
// Redfish. It is the only importer of a Redfish library.
//
// It returns the controller's answers and decides nothing. Only ConfirmOff
// proves that a machine is off: an accepted or refused request says nothing
// about what happened. Every request ends within the endpoint's timeout,
// whatever the controller does, and no error contains a user name or password.
package redfish
