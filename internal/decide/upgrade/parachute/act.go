package parachute

// Act is what a host does.
type Act string

// The acts. Each can be done again.
const (
	// Rest: there is nothing to do.
	Rest Act = "rest"
	// DoPrepare moves leadership, VIPs and pods that have to move.
	DoPrepare Act = "prepare"
	// DoLeave lets etcd leave in order and ends the daemons.
	DoLeave Act = "leave"
	// Arm starts the parachute's timer.
	Arm Act = "arm"
	// Switch lets the one switch lead to the new release.
	Switch Act = "switch"
	// Start starts the daemons of the running release.
	Start Act = "start"
	// Prove gathers what the running release shows.
	Prove Act = "prove"
	// Accept ends the timer.
	Accept Act = "accept"
	// RaiseServers lets the servers of the host behave as what they are, RaiseKubelet its
	// kubelet be that of the running release.
	RaiseServers Act = "raise servers"
	RaiseKubelet Act = "raise kubelet"
	// DoEmpty has the pods of a host that is to return move to other hosts.
	DoEmpty Act = "empty"
	// Undo lets the host serve again with the old release, which it never left.
	Undo Act = "undo"
	// SwitchBack lets the one switch lead to the old release, and starts it.
	SwitchBack Act = "switch back"
	// Hold leaves everything as it is, tells a person, and goes on looking.
	Hold Act = "hold"
)

// Action is the next thing that a host does.
type Action struct {
	Act Act
	// Journal is written before the act.
	Journal Journal
	// Why explains the action to people.
	Why string
	// Held is why the host does not return although it would, while it goes on all the same. A
	// host that holds says so in Why.
	Held string
	// Remain is true if a host that waits may have the virtual IPs again that it has given up:
	// perhaps nobody else has them.
	Remain bool
}
