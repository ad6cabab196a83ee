// Package lab brings up a whole site on one Linux machine: hosts that are
// systemd system containers in network namespaces of their own, a machine and a
// fencing network that end inside the lab, a BMC per host that powers it, and
// faults as commands.
//
// The lab installs as a site does: it writes an install-config, lets the
// installer make each host's Ignition config and powers the hosts on through
// their BMCs. It never touches the network of the machine it runs on, and Down
// leaves nothing behind.
//
// One process per lab, the lab daemon, is the only writer of the hosts' power
// and faults; every command asks it over a socket in the lab's directory.
package lab
