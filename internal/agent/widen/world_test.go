package widen

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/podman"
	"github.com/holdfast/holdfast/internal/adapter/records"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
	decide "github.com/holdfast/holdfast/internal/decide/twonode"
	"github.com/holdfast/holdfast/internal/decide/widen"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/plantest"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

// cluster is an API of values.
type cluster struct {
	plantest.API
	marks map[string]string // annotations of cp-1 and cp-2
	lost  string            // a host whose Node is gone
	node  Node
}

func (c *cluster) SetAnnotations(_ context.Context, node string, values map[string]*string) error {
	if node == c.lost {
		return errors.New("not found")
	}
	for k, v := range values {
		if c.marks[k] = strings.TrimPrefix(c.marks[k], node+" p1"); v != nil {
			c.marks[k] = node + " " + *v
		}
	}
	return nil
}

func (c *cluster) GiveAgain(_ context.Context, name string, now time.Time) error {
	if h, there := c.Graves[name]; there {
		h.Again = now
		c.Graves[name] = h
	}
	return nil
}

func (c *cluster) DeleteNode(_ context.Context, name, uid string) error {
	c.Did = append(c.Did, "node "+name+" "+uid)
	c.node = Node{}
	return nil
}

func (c *cluster) NodeOf(_ context.Context, name string) (Node, error) {
	if name != "cp-3" {
		return Node{There: name != c.lost}, nil
	}
	return c.node, nil
}

// ring is an etcd of values.
type ring struct{ plantest.Ring }

func (r *ring) AddLearner(_ context.Context, url string) (state.MemberID, error) {
	r.Did = append(r.Did, "adds "+url)
	r.Now.Members = append(r.Now.Members, state.EtcdMember{ID: 7, Learner: true})
	return 7, nil
}

func (r *ring) MoveLeader(_ context.Context, to state.MemberID) error {
	r.Did = append(r.Did, "moves the lead to "+to.String())
	return nil
}

// lab is cp-1 of values, of a site of two.
type lab struct {
	*here
	t        *testing.T
	api      *cluster
	ring     *ring
	others   map[string]etcd.MemberStatus
	cib      string
	commands []string
	halted   int
	mute     bool // the etcd keeper
}

func newLab(t *testing.T) *lab {
	t.Helper()
	root := t.TempDir()
	two := []state.EtcdMember{{ID: 1, Name: "cp-1"}, {ID: 2, Name: "cp-2"}}
	votes := etcd.MemberStatus{Serves: true, Leader: 1}
	l := &lab{
		t: t, api: &cluster{API: plantest.NewAPI(), marks: map[string]string{}},
		ring: &ring{plantest.Ring{Now: etcd.MemberStatus{Member: 1, Leader: 1, Serves: true, Members: two}}}, others: map[string]etcd.MemberStatus{"cp-2": votes, "cp-3": votes}, cib: cib("false"),
	}
	l.here = &here{
		Options: Options{
			Host: "cp-1", ControlPlanes: 2, Log: log.New(io.Discard, "", 0), Target: func() error { return nil },
			Pod: func(self string, members []decide.Node) ([]byte, error) {
				return []byte(fmt.Sprintln(self, members)), nil
			},
		},
		root: root, files: records.Files{Root: root}, now: func() time.Time { return noon }, boot: func() (string, error) { return "boot-1", nil },
		report: func(context.Context) (state.EtcdReport, error) { return l.said() },
		run: func(_ context.Context, c host.Cmd) ([]byte, error) {
			if line := c.String(); !strings.HasPrefix(line, "cibadmin") {
				l.commands = append(l.commands, line)
			}
			return []byte(l.cib), nil
		},
		open: func() (API, error) { return l.api, nil }, etcd: func() (Etcd, error) { return l.ring, nil },
		statuses: func(_ context.Context, at map[string]string) map[string]etcd.MemberStatus {
			if at["cp-2"] != "192.0.2.12" || at["cp-3"] != "192.0.2.13" || len(at) != 2 {
				t.Errorf("asked at %v", at)
			}
			return l.others
		},
		applied: func(context.Context, string) (state.MemberID, uint64, error) { return 0, 0, errors.New("no answer") },
		serves:  func(_ context.Context, address string) state.Fact[bool] { return state.Known(address == "192.0.2.13") },
		podman:  func(context.Context) (podman.Process, error) { return podman.Process{}, nil },
		halt:    func(context.Context) error { l.halted++; return nil },
	}
	l.put(state.EtcdParametersPath, `{"nodes":{"cp-1":"192.0.2.11","cp-2":"192.0.2.12"}}`)
	return l
}

func cib(maintenance string) string {
	return `<cib><configuration><crm_config><cluster_property_set id="x"><nvpair id="y" name="maintenance-mode" value="` + maintenance + `"/></cluster_property_set></crm_config></configuration></cib>`
}

func (l *lab) put(path, text string) {
	l.t.Helper()
	if err := powercut.WriteFile(l.path(path), []byte(text), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) said() (state.EtcdReport, error) {
	if l.mute {
		return state.EtcdReport{}, errors.New("no answer")
	}
	word, err := l.files.Third()
	return state.EtcdReport{Snapshot: state.EtcdSnapshot{
		Host: "cp-1", Peer: "cp-2", Record: state.Known(state.EtcdRecord{State: state.EtcdPair}), Pacemaker: state.EtcdPacemaker{Contact: state.Known(true), Ring: 5},
		Statement: state.Known(state.EtcdStatement{Ring: 5, Record: state.EtcdRecord{State: state.EtcdPair}}),
		Local:     state.EtcdLocal{Running: state.Known(true), Leader: state.Known(l.ring.Now.Leader), Members: state.Known(l.ring.Now.Members), StandIn: state.Known(state.MemberID(0))},
		Third:     state.EtcdThird{Word: word, Behind: state.Known(uint64(3))},
	}}, err
}

func (l *lab) job(stage widen.Stage) Job {
	return Job{Plan: &widen.Plan{
		Format: widen.Format, ID: "p1", Widens: true, Survivor: "cp-1", Peer: "cp-2", New: replace.New{Name: "cp-3", Address: "192.0.2.13"}, By: "ada", Stage: stage, Written: noon, Third: 7, Newcomer: newcomer,
	}}
}

func (l *lab) do(act widen.Act, job Job) {
	l.t.Helper()
	if err := l.world().Do[act](l.t.Context(), job); err != nil {
		l.t.Fatalf("%s: %v", act, err)
	}
}

func (l *lab) doors() replacement.Store {
	return replacement.Store{Root: l.root, Write: powercut.WriteFile}
}

func claims(name string) jointoken.Claims {
	return jointoken.Claims{Purpose: jointoken.Host, Role: state.RoleMaster, Host: name}
}

func (l *lab) door(hostName string, relayed *[]string) *Door {
	return &Door{
		Store: l.doors(), Files: l.files, Host: hostName, Pod: l.Pod, Now: l.now,
		Relay: func(_ context.Context, carrier netip.Addr, own jointoken.Claims, _ []byte) (configserver.Entry, error) {
			*relayed = append(*relayed, carrier.String()+" "+own.Host)
			return configserver.Entry{Needed: true, Waits: "by the carrier"}, nil
		},
	}
}
