package host

import (
	"path"
	"strings"

	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Names of the units of a host that is on its way to another release.
const (
	ParachuteUnit  = "holdfast-parachute.service"
	ParachuteTimer = "holdfast-parachute.timer"
	SwitchUnit     = "holdfast-switch.service"
	RaiseUnit      = "holdfast-raise.service"
)

// UnitDir is where administrators' units lie, and ours.
const UnitDir = "/etc/systemd/system"

// ParachuteWants is the link by which a boot runs the parachute.
const ParachuteWants = UnitDir + "/multi-user.target.wants/" + ParachuteUnit

// timerWants is the same for its timer.
const timerWants = UnitDir + "/timers.target.wants/" + ParachuteTimer

// ReleaseAgent returns the path of the agent of a release, by the release's digest: no
// switch changes what runs there.
func ReleaseAgent(digest string) string {
	return path.Join(payload.ReleasesDir, strings.TrimPrefix(digest, "sha256:"), "usr/local/bin/holdfast-agent")
}

// Parachute returns the files with which a host returns to a release, and with which
// it is switched. All of them run the program of that release, whatever the host's
// paths lead to. hangs is the file that gets a byte for each hang of the agent.
func Parachute(digest, hangs string) []state.File {
	agent := ReleaseAgent(digest)
	text := func(s string) []byte { return []byte(strings.NewReplacer("AGENT", agent, "HANGS", hangs).Replace(s)) }
	return []state.File{
		{Path: UnitDir + "/" + ParachuteUnit, Data: text(parachuteUnit), Mode: state.DefaultFileMode},
		{Path: UnitDir + "/" + ParachuteTimer, Data: text(parachuteTimer), Mode: state.DefaultFileMode},
		{Path: UnitDir + "/" + SwitchUnit, Data: text(switchUnit), Mode: state.DefaultFileMode},
		{Path: UnitDir + "/" + KubeletUnit + ".d/50-holdfast-release.conf", Data: text(podsDropin), Mode: state.DefaultFileMode},
		{Path: UnitDir + "/" + AgentUnit + ".d/50-holdfast-release.conf", Data: text(hangsDropin), Mode: state.DefaultFileMode},
	}
}

// Raise returns the file with which kubelet of a host becomes that of a release. It runs
// the program of that release.
func Raise(digest string) state.File {
	text := strings.ReplaceAll(raiseUnit, "AGENT", ReleaseAgent(digest))
	return state.File{Path: UnitDir + "/" + RaiseUnit, Data: []byte(text), Mode: state.DefaultFileMode}
}

// ParachuteLinks returns the links that enable them, each with its target.
func ParachuteLinks() map[string]string {
	return map[string]string{ParachuteWants: UnitDir + "/" + ParachuteUnit, timerWants: UnitDir + "/" + ParachuteTimer}
}

// parachuteUnit is ordered before nothing: it stops and starts what boots beside it,
// and each would wait for the other. It may do what the installation does: it chooses
// a release, and runs etcd by podman.
const parachuteUnit = `[Unit]
Description=Return this host to the release that it comes from, if the new one does not show that it is healthy
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=AGENT parachute
TimeoutStartSec=15min
LimitCORE=0

[Install]
WantedBy=multi-user.target
`

const parachuteTimer = `[Unit]
Description=Look often whether this host has to return to the release that it comes from

[Timer]
OnActiveSec=15s
OnUnitInactiveSec=15s
AccuracySec=1s

[Install]
WantedBy=timers.target
`

// switchUnit is run by the agent, which may not write where the releases are. podman
// needs the host's own mounts.
const switchUnit = `[Unit]
Description=Switch this host to the release for which it has its turn
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=AGENT parachute --switch
TimeoutStartSec=4min
` + plain + `RestrictRealtime=yes
`

// raiseUnit is run by the agent, which may not write where the link of kubelet is.
const raiseUnit = `[Unit]
Description=Let kubelet be that of the release that this host runs
StartLimitIntervalSec=0

[Service]
Type=oneshot
ExecStart=AGENT parachute --raise
TimeoutStartSec=1min
` + plain + `RestrictRealtime=yes
`

// podsDropin has kubelet find the static pods of the release that is chosen. Whoever
// cut the power in between the switch and the pods finds them put right.
const podsDropin = `[Service]
ExecStartPre=-AGENT parachute --pods
`

// hangsDropin counts the hangs of the agent.
const hangsDropin = `[Service]
ExecStopPost=-/bin/sh -c 'test "$SERVICE_RESULT" != watchdog || printf x >> HANGS'
`
