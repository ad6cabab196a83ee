package narrow

import (
	"context"
	"errors"
	"io"
	"log"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/pacemaker"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/agent/twonode"
	"github.com/holdfast/holdfast/internal/decide/narrow"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/plantest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// cluster is an API of values.
type cluster struct {
	plantest.API
	marks   map[string]string // annotations, by name and key
	nodes   map[string]Node
	volumes []string
	mute    bool // no Secret can be read
}

func (c *cluster) Secret(ctx context.Context, ns, name string) (map[string][]byte, error) {
	if c.mute {
		return nil, errors.New("no answer")
	}
	return c.API.Secret(ctx, ns, name)
}

func (c *cluster) SetAnnotations(_ context.Context, node string, values map[string]*string) error {
	for k, v := range values {
		delete(c.marks, node+" "+k)
		if v != nil {
			c.marks[node+" "+k] = *v
		}
	}
	return nil
}

func (c *cluster) DeleteNode(_ context.Context, name, uid string) error {
	c.Did = append(c.Did, "node "+name+" "+uid)
	delete(c.nodes, name)
	return nil
}

func (c *cluster) NodeOf(_ context.Context, name string) (Node, error) { return c.nodes[name], c.Fails }

func (c *cluster) VolumesOf(context.Context, string) ([]string, error) { return c.volumes, c.Fails }

// lab is cp-1 of values, of a site of three.
type lab struct {
	*here
	t        *testing.T
	api      *cluster
	ring     *plantest.Ring
	others   map[string]etcd.MemberStatus
	cib      string
	commands []string
	did      []string // by the options
	tests    map[string]fence.Report
	started  *state.EtcdParameters
	fails    map[string]error // of the options
	units    map[string]bool  // that do not start at boot, or do not run
	clock    time.Time
}

const threeYAML = "controlPlane: {replicas: 3}\n"

// sites returns the living site of three, and the target.
func sites(t *testing.T) (*site.Site, replacement.NarrowTarget) {
	t.Helper()
	text := sitetest.TwoDual
	from, to := strings.Index(text, "controlPlane:"), strings.Index(text, "networking:")
	have := sitetest.New(t, text[:from]+threeYAML+text[to:]).For(state.RoleMaster).Settled()
	want := *have
	want.Config = sitetest.New(t, text).Config
	var devices []state.FencingDevice
	for _, c := range want.Config.ControlPlane.Fencing.Credentials {
		devices = append(devices, state.FencingDevice{Target: c.HostName, Address: c.Address, Username: c.Username, Password: c.Password.Reveal(), UUID: "of " + c.HostName})
	}
	return have, replacement.NarrowTarget{Plan: "p1", Site: &want, Devices: devices}
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root := t.TempDir()
	have, target := sites(t)
	voting := etcd.MemberStatus{Serves: true, Leader: 1}
	l := &lab{
		t: t, clock: noon, fails: map[string]error{}, units: map[string]bool{"corosync.service": true, "pacemaker.service": true},
		api: &cluster{
			API: plantest.NewAPI(), marks: map[string]string{},
			nodes: map[string]Node{
				"cp-1": {There: true, UID: "u1", Address: "192.0.2.11"}, "cp-2": {There: true, UID: "u2", Address: "192.0.2.12"}, "cp-3": {There: true, UID: "u3", MachineID: "id3", Address: "192.0.2.13"},
			},
		},
		ring:   &plantest.Ring{Now: etcd.MemberStatus{Member: 1, Leader: 1, Serves: true, Members: []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}, {ID: 7, Name: "cp-3"}}}},
		others: map[string]etcd.MemberStatus{"cp-2": voting, "cp-3": voting}, cib: `<cib/>`,
		tests: map[string]fence.Report{"cp-1": {Identity: fence.IdentityMatches}, "cp-2": {Identity: fence.IdentityMatches}},
	}
	done := func(what string) error { l.did = append(l.did, what); return l.fails[what] }
	l.here = &here{
		Options: Options{
			Host: "cp-1", Cluster: "shop", ControlPlanes: 3, Log: log.New(io.Discard, "", 0), Own: func() (*site.Site, error) { return have, nil },
			Manifest: func(nodes []decide.Node, self string) ([]byte, error) {
				return []byte("pod of " + self + " beside " + nodes[1].Address), nil
			},
			Possible: func(*site.Site) error { return nil },
			Equip:    func(context.Context, *site.Site) error { return done("equip") },
			Strip:    func(context.Context, *site.Site) error { return done("strip") },
			Dress:    func(context.Context, narrow.Plan, *site.Site) error { return done("dress") },
			Undress:  func(context.Context, narrow.Plan, *site.Site) error { return done("undress") },
			Restart:  func(context.Context) error { return done("restart") },
			Backup:   func(context.Context) state.Fact[time.Time] { return state.Known(noon) },
		},
		root: root, files: records.Files{Root: root}, store: replacement.Store{Root: root, Write: powercut.WriteFile}, now: func() time.Time { return l.clock },
		boot: func() (string, error) { return "boot-1", nil }, token: func() string { return "t0ken-of-the-test-abcdef" },
		report: func(context.Context) (state.EtcdReport, error) { return state.EtcdReport{}, errors.New("no keeper") },
		run:    l.program, open: func() (API, error) { return l.api, nil }, etcd: func() (Etcd, error) { return l.ring, nil },
		statuses: func(_ context.Context, at map[string]string) map[string]etcd.MemberStatus {
			out := map[string]etcd.MemberStatus{}
			for name := range at {
				if s, there := l.others[name]; there {
					out[name] = s
				}
			}
			return out
		},
		lead: func(_ context.Context, of string, _ map[string]string) (bool, error) {
			l.did = append(l.did, "lead of "+of)
			return true, nil
		},
		serves: func(context.Context, string) state.Fact[bool] { return state.Fact[bool]{} },
		test:   func(_ context.Context, d state.FencingDevice) fence.Report { return l.tests[d.Target] },
	}
	l.steps = func() *twonode.Host {
		s := twonode.NewHost(io.Discard)
		s.Root, s.Run, s.Wait = root, l.program, time.Second
		s.Status = func(context.Context) (pacemaker.Status, error) {
			return pacemaker.Status{Online: []string{"cp-1", "cp-2"}}, nil
		}
		s.Container = func(context.Context) (podman.Process, error) { return podman.Process{}, nil }
		s.Start = func(_ context.Context, p state.EtcdParameters) error { l.started = &p; return nil }
		s.WriteDevices = func(_ context.Context, files records.Files, devices []state.FencingDevice) error {
			for _, d := range devices {
				l.put(filepath.Join(state.FencingDir, d.Target+".json"), `{"target":"`+d.Target+`"}`)
			}
			return nil
		}
		return s
	}
	l.put("/etc/kubernetes/manifests/etcd.yaml", "kind: Pod\n")
	l.put("/etc/passwd", "hacluster:x:101:103::/:/bin/false\n")
	l.put(state.EtcdDataDir+"/member/snap/db", "small")
	l.put("/proc/locks", "")
	if err := l.store.PutNarrowTarget(target); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *lab) program(_ context.Context, c host.Cmd) ([]byte, error) {
	line := c.String()
	switch {
	case strings.HasPrefix(line, "cibadmin"):
		return []byte(l.cib), nil
	case strings.HasPrefix(line, "systemctl is-"):
		if off := l.units[c.Args[len(c.Args)-1]]; off {
			return nil, &host.RunError{Cmd: c, ExitCode: 3, Err: errors.New("inactive")}
		}
		return nil, nil
	}
	l.commands = append(l.commands, line)
	return nil, nil
}

func (l *lab) put(path, text string) {
	l.t.Helper()
	if err := powercut.WriteFile(l.path(path), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// corosync plays the two hosts in Corosync's cluster, which runs.
func (l *lab) corosync() {
	l.put("/etc/corosync/corosync.conf", "totem {\n  version: 2\n  cluster_name: shop\n  transport: knet\n  crypto_cipher: aes256\n  crypto_hash: sha256\n}\nnodelist {\n"+
		"  node {\n    ring0_addr: 192.0.2.11\n    name: cp-1\n    nodeid: 1\n  }\n  node {\n    ring0_addr: 192.0.2.12\n    name: cp-2\n    nodeid: 2\n  }\n}\nquorum {\n  two_node: 1\n}\n")
	l.units = map[string]bool{}
}

func (l *lab) job(stage narrow.Stage) Job {
	return Job{Plan: &narrow.Plan{Format: narrow.Format, ID: "p1", Narrows: true, Survivor: "cp-1", Peer: "cp-2", Old: gone, Third: 7, By: "ada", Stage: stage, Begun: noon, Written: noon}}
}

func (l *lab) do(act narrow.Act, job Job) {
	l.t.Helper()
	if err := l.world().Do[act](l.t.Context(), job); err != nil {
		l.t.Fatalf("%s: %v", act, err)
	}
}
