package bmc

// Reason is the reason why a BMC could not be used.
type Reason string

// The reasons. None of them means that a machine is off.
const (
	// Unreachable: there is no connection to the controller.
	Unreachable Reason = "unreachable"
	// Timeout: the controller did not answer in time.
	Timeout Reason = "timeout"
	// Canceled: canceled by the caller.
	Canceled Reason = "canceled"
	// Certificate: its certificate cannot be trusted.
	Certificate Reason = "certificate"
	// Pin: it shows another certificate than the pinned one.
	Pin Reason = "pin"
	// TLS: there is no encryption that both sides allow.
	TLS Reason = "tls"
	// Credentials: it refuses the account, or the account lacks the right.
	Credentials Reason = "credentials"
	// NotFound: it does not have the system.
	NotFound Reason = "not-found"
	// Conflict: it refuses the request in its present state.
	Conflict Reason = "conflict"
	// Unsupported: it does not know the request.
	Unsupported Reason = "unsupported"
	// ServerError: it failed itself.
	ServerError Reason = "server-error"
	// Protocol: its answer is not Redfish.
	Protocol Reason = "protocol"
	// WrongServer: it is the controller of another machine.
	WrongServer Reason = "wrong-server"
	// NoSystem: it is not clear which of its systems is intended.
	NoSystem Reason = "no-system"
	// NotOff: the machine is not proven to be off.
	NotOff Reason = "not-off"
	// Unpinned: no authority vouches for it and nobody has pinned its certificate, so
	// whoever answers at its address would be believed. Nothing talks to such a BMC,
	// least of all a fence, because an attacker in between would wait for that.
	Unpinned Reason = "unpinned"
	// Unexplained: the error has no other reason.
	Unexplained Reason = "unknown"
)
