package host

import (
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// PairUnit runs one act by which a host of three becomes one of two, or is that no more: its
// instance is the act. Only a plan needs it, so it lies in the folder that a boot empties.
const PairUnit = "holdfast-pair@.service"

// Pair returns the file of PairUnit.
func Pair() state.File {
	return state.File{Path: "/run/systemd/system/" + PairUnit, Data: []byte(pairUnit), Mode: state.DefaultFileMode}
}

// PairOf returns the unit of one act.
func PairOf(act string) string { return strings.Replace(PairUnit, "@", "@"+act, 1) }

// pairUnit is started by the agent, which may write neither programs nor what packages
// bring, and may not run podman. It may do what the installation does.
const pairUnit = `[Unit]
Description=Two control planes of three: %i this host
StartLimitIntervalSec=0

[Service]
Type=oneshot
EnvironmentFile=-/etc/default/holdfast-agent
EnvironmentFile=-` + state.ProxyPath + `
ExecStart=/usr/local/bin/holdfast-agent pair %i
TimeoutStartSec=15min
TimeoutStopSec=150s
KillMode=mixed
LimitCORE=0
`
