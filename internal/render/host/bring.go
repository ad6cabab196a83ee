package host

import (
	"strings"

	"github.com/holdfast/holdfast/internal/model/state"
)

// BringUnit is the unit by which a control plane brings a part of a release to the cluster
// (package agent/parts).
const BringUnit = "holdfast-bring.service"

// Bring returns the unit's file for a part. It runs the program of the release that is
// brought, whichever one the host runs. A control plane gets it when it is first told to
// bring a part.
func Bring(digest, part string) state.File {
	text := strings.NewReplacer("AGENT", ReleaseAgent(digest), "PART", part).Replace(bringUnit)
	return state.File{Path: UnitDir + "/" + BringUnit, Data: []byte(text), Mode: state.DefaultFileMode}
}

// bringUnit reads the administrator's access to the API as root, and writes nothing on the
// host but how it ended. The file is written anew for each part, so nothing starts it at a
// boot.
const bringUnit = `[Unit]
Description=Bring a part of a release to the cluster
After=network-online.target
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=AGENT bring --part PART
TimeoutStartSec=5min
ReadWritePaths=-/run/holdfast/bring
` + plain + leaveConfinement
