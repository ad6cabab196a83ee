package replace

import (
	"context"
	"errors"
	"io"
	"log"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/handover"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/decide/upgrade/annotation"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/plantest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// cluster is an API of values.
type cluster struct {
	plantest.API
	node   NodeFacts
	pods   int
	pinned []corev1.Pod // are made again as often as they are deleted
	lease  time.Time
	said   *annotation.Host // of cp-1
}

func (c *cluster) PodsOn(context.Context, string) ([]corev1.Pod, error) {
	return append(make([]corev1.Pod, c.pods), c.pinned...), nil
}

func (c *cluster) DeletePodsOn(context.Context, string) error {
	c.Did, c.pods = append(c.Did, "pods"), 0
	return nil
}

func (c *cluster) DeleteNode(_ context.Context, _, uid string) error {
	if c.Did = append(c.Did, "node"); c.node.UID == uid {
		c.node = NodeFacts{}
	}
	return nil
}

func (c *cluster) VolumesOf(context.Context, string) ([]string, error) { return nil, nil }

func (c *cluster) NodeLastSeen(context.Context, string) (time.Time, error) { return c.lease, nil }

func (c *cluster) Facts(_ context.Context, name string) (NodeFacts, error) {
	if name != "cp-2" {
		return NodeFacts{}, nil
	}
	return c.node, nil
}

func (c *cluster) Said(_ context.Context, name string) (annotation.Host, error) {
	if name != "cp-1" || c.said == nil {
		return annotation.Host{}, errors.New("it says nothing")
	}
	return *c.said, nil
}

func (c *cluster) Conditions(context.Context) ([]handover.Condition, error) {
	return []handover.Condition{{Type: handover.SetupAvailable, Status: true}, {Type: handover.SetupProgressing}, {Type: handover.SetupDegraded}}, nil
}

// lab is a host of values: cp-2 of corosync.conf is lost, cp-1 stays.
type lab struct {
	*here
	api      *cluster
	power    string
	mute     bool
	contact  bool
	answers  bool
	clock    time.Time
	commands []string
	nodes    []string
}

func newLab(t *testing.T) (*lab, Job) {
	t.Helper()
	root := t.TempDir()
	conf, err := os.ReadFile("../../decide/twonode/testdata/corosync.conf")
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{
		power: state.PowerOff, clock: noon, nodes: []string{"cp-1", "cp-2"},
		api: &cluster{API: plantest.NewAPI(), pods: 3, node: NodeFacts{
			Node: replace.Node{There: true, UID: "u"}, Address: "10.98.0.12", Machine: state.Machine{UUID: "old", Serial: "S2"}, MachineID: "m-old",
		}},
	}
	l.api.Maps[system+"/"+lockName] = map[string]string{lockKey: "p1"}
	l.here = &here{
		Options: Options{Host: "cp-1", Cluster: "site-1", ControlPlanes: 2, Log: log.New(io.Discard, "", 0), NamedIn: func(replace.Plan) bool { return true }}, root: root, files: records.Files{Root: root}, now: func() time.Time { return l.clock },
		report: func(context.Context) (state.EtcdReport, error) { return l.said(), nil },
		status: func(context.Context) (pacemaker.Status, error) { return pacemaker.Status{Nodes: l.nodes}, nil },
		run: func(_ context.Context, c host.Cmd) ([]byte, error) {
			l.commands = append(l.commands, c.String())
			if strings.HasPrefix(c.String(), "crm_node") {
				l.nodes = []string{"cp-1"}
			}
			return []byte("<cib/>"), nil
		},
		off: func(context.Context, string) error { l.power = state.PowerOff; return nil },
		test: func(_ context.Context, d state.FencingDevice) fence.Report {
			if d.UUID == "new" {
				return fence.Report{Identity: fence.IdentityMatches}
			}
			return fence.Report{Identity: fence.IdentityDiffers, Problems: []string{"another machine"}}
		},
		own: func() (state.Machine, error) { return state.Machine{UUID: "own"}, nil },
		dial: func(context.Context, string) error {
			if l.answers {
				return nil
			}
			return errors.New("no route")
		},
		open:   func() (API, error) { return l.api, nil },
		podman: func(context.Context) (podman.Process, error) { return podman.Process{}, nil },
	}
	l.here.power = func(context.Context, string) (string, error) { return l.power, l.silence() }
	for path, data := range map[string][]byte{corosync.Path: conf, twonode.CorosyncKey: []byte("old key")} {
		if err := powercut.WriteFile(l.path(path), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	plan := replace.Plan{
		Format: 1, ID: "p1", By: "ada", Begun: noon, Stage: replace.Retired, New: replace.New{Name: "cp-2", BMC: "https://bmc"},
		Old: replace.Old{Name: "cp-2", Address: "10.98.0.12", UID: "u", Machine: state.Machine{UUID: "old", Serial: "S2"}},
	}
	return l, Job{Plan: &plan, Order: &order, Secrets: replacement.Secrets{Plan: "p1", Token: strings.Repeat("s", 32), JoinKey: []byte("join")}}
}

func (l *lab) silence() error {
	if l.mute {
		return errors.New("it does not answer")
	}
	return nil
}

func (l *lab) said() state.EtcdReport {
	own := []state.EtcdMember{{ID: 1, Name: "cp-1"}}
	return state.EtcdReport{Snapshot: state.EtcdSnapshot{
		Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdSole}), Pacemaker: state.EtcdPacemaker{Contact: state.Known(l.contact)},
		Local: state.EtcdLocal{Running: state.Known(true), Leader: state.Known(state.MemberID(1)), Members: state.Known(own), StandIn: state.Known(state.MemberID(0))},
	}}
}
