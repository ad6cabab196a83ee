package host

import "github.com/holdfast/holdfast/internal/model/state"

// FetchUnit is the unit that brings releases to a host (package agent/releases).
const FetchUnit = "holdfast-fetch.service"

// Fetch returns the unit's file. A host gets it when a release is first wanted there.
func Fetch() state.File {
	return state.File{Path: "/etc/systemd/system/" + FetchUnit, Data: []byte(fetchUnit), Mode: state.DefaultFileMode}
}

// fetchUnit writes where programs lie, and gives images to containerd and podman, so
// it is hardly confined. Everything else of the host goes before it. The folder holds the
// account for the site's own registry (RegistryAuthPath).
const fetchUnit = `[Unit]
Description=Fetch the releases that are wanted on this host
After=network-online.target containerd.service
ConditionPathExists=/usr/local/bin/holdfast-agent
StartLimitIntervalSec=0

[Service]
Type=oneshot
Environment=DOCKER_CONFIG=/etc/holdfast/registry
EnvironmentFile=-/etc/default/holdfast-agent
EnvironmentFile=-` + state.ProxyPath + `
ExecStart=/usr/local/bin/holdfast-agent fetch
TimeoutStartSec=5h
Nice=19
IOSchedulingClass=idle
CPUWeight=1
IOWeight=1
LimitCORE=0
OOMScoreAdjust=1000
`
