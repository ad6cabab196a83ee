package dualstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	decide "github.com/holdfast/holdfast/internal/decide/dualstack"
	install "github.com/holdfast/holdfast/internal/install/dualstack"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/powercut"
)

func plan() decide.Plan {
	p := decide.Plan{
		ID: "p", By: "ada", At: time.Unix(1, 0), Machines: "fd98::/64", Pods: config.ClusterNetworkEntry{CIDR: "fd44::/56", HostPrefix: 64}, Services: "fd96::/112",
		Hosts: map[string]decide.Host{},
	}
	for i, name := range names {
		p.Hosts[name] = decide.Host{ControlPlane: name != "w-1", Share: netip.MustParsePrefix(fmt.Sprintf("fd44:0:0:%x::/64", 0xff-i))}
	}
	return p
}

var names = []string{"cp-1", "cp-2", "w-1"}

// town is a site of two control planes and a worker, with an API that answers. A test cuts one
// host at one of its effects: the agent ends there, and begins anew.
type town struct {
	powercut.Cut
	announced     string
	locked        bool
	other         error    // the words of another plan that has the lock
	bare          []string // what the carrier does without the lock
	hosts         map[string]*townHost
	noted, routed bool
	settled       bool
	now           time.Time
	crashes       int
	burns         string // the host that is lost for good, and taken out, when a host is cut
	out           string // that was
	log           []string
}

type townHost struct {
	*Agent
	town         *town
	root, name   string
	boot, shares int
	told         string
	serve        bool
	files, both  bool
	wish         bool
	lacks        string
	gone         bool // its Node, which does not come back by itself
	away         bool // not ready
	registers    bool // its Node is registered anew once it has both shares: Kubernetes gives it others
	runtime      []netip.Prefix
}

func newTown(t *testing.T) *town {
	t.Helper()
	w := &town{hosts: map[string]*townHost{}, now: time.Unix(1_800_000_000, 0)}
	for _, name := range names {
		h := &townHost{town: w, root: t.TempDir(), name: name, shares: 1}
		h.begin()
		w.hosts[name] = h
	}
	return w
}

// begin starts the agent of a host.
func (h *townHost) begin() {
	w := h.town
	effect := func(what string, do func()) error {
		return w.Effect(func() error {
			if h.name == names[0] && !w.locked && !slices.Contains([]string{"begins", "publishes", "withdraws"}, what) {
				w.bare = append(w.bare, what)
			}
			w.log = append(w.log, h.name+" "+what)
			do()
			return nil
		})
	}
	h.Agent = &Agent{
		Store: install.Store{Root: h.root}, Host: func() string { return h.name }, Now: func() time.Time { return w.now },
		World: World{
			Boot: func() (string, error) { return fmt.Sprint(h.boot), nil },
			Fits: func(decide.Plan) ([]netip.Addr, string) {
				if h.lacks != "" {
					return nil, h.lacks
				}
				return []netip.Addr{netip.MustParseAddr("10.98.0.11"), netip.MustParseAddr("fd98::11")}, ""
			},
			Carried: func(context.Context) (state.Fact[bool], string) { return state.Known(true), "" },
			Retired: func(_ context.Context, name string) (bool, error) { return name == w.out, nil },
			Serves:  func(context.Context, decide.Plan) (bool, error) { return h.serve, nil },
			Serve:   func(decide.Plan) error { return effect("serves", func() { h.serve = true }) },
			Shares:  func(context.Context) ([]string, error) { return h.cidrs(), nil },
			Change: func(_ decide.Plan, _ []netip.Addr, shares []netip.Prefix) error {
				return effect("changes", func() { h.files, h.runtime = true, shares })
			},
			AskBoot: func(context.Context, string) error {
				if h.wish {
					return nil
				}
				return effect("asks for a boot", func() { h.wish = true })
			},
			Cluster: func() (Cluster, error) { return &clusterOf{h, effect}, nil },
			Tell:    func(_ context.Context, _, value string) error { h.told = value; return nil },
		},
	}
}

// cidrs are the shares of the host's Node.
func (h *townHost) cidrs() []string {
	out := []string{"10.128.2.0/23", plan().Hosts[h.name].Share.String()}
	if h.registers {
		out = []string{"10.128.6.0/23", "fd44:0:0:7::/64"}
	}
	return out[:h.shares]
}

// clusterOf is the cluster as the carrier sees it.
type clusterOf struct {
	h      *townHost
	effect func(string, func()) error
}

func (c *clusterOf) Shares(context.Context, decide.Plan) (map[string]int, error) {
	out := map[string]int{}
	for name, h := range c.h.town.hosts {
		if !h.gone {
			out[name] = h.shares
		}
	}
	return out, nil
}

func (c *clusterOf) Stands(_ context.Context, kept *corev1.Node) (bool, error) {
	return !c.h.town.hosts[kept.Name].gone, nil
}

func (c *clusterOf) Others(context.Context, decide.Plan) (string, error) {
	if other := c.h.town.other; other != nil {
		return other.Error(), nil //nolint:nilerr // who has the lock is no error here
	}
	return "", nil
}

func (c *clusterOf) Work(context.Context, decide.Plan) (string, error) { return "", nil }
func (c *clusterOf) Noted(context.Context, decide.Plan) (bool, error)  { return c.h.town.noted, nil }

func (c *clusterOf) Lock(context.Context, decide.Plan) error {
	c.h.town.locked = c.h.town.other == nil
	return c.h.town.other
}

func (c *clusterOf) Routed(context.Context, decide.Plan) (bool, error) { return c.h.town.routed, nil }

func (c *clusterOf) Begin(_ context.Context, p decide.Plan) error {
	if c.h.town.announced == "" {
		return install.ErrTakenBack
	}
	p.Begun = true
	return c.effect("begins", func() { c.h.town.locked, c.h.town.announced = true, text(p) })
}

func (c *clusterOf) Publish(_ context.Context, p decide.Plan) error {
	p.Begun = true
	return c.effect("publishes", func() { c.h.town.locked, c.h.town.announced = true, text(p) })
}

func (c *clusterOf) Note(context.Context, decide.Plan) error {
	return c.effect("notes", func() { c.h.town.noted = true })
}

func (c *clusterOf) Share(_ context.Context, _ decide.Plan, host string) error {
	return c.effect("shares "+host, func() { h := c.h.town.hosts[host]; h.shares, h.gone = 2, false })
}

func (c *clusterOf) Route(context.Context, decide.Plan) error {
	return c.effect("routes", func() { c.h.town.routed = true })
}

func (c *clusterOf) Settle(context.Context, decide.Plan) error {
	return c.effect("settles", func() { c.h.town.settled = true })
}

func (c *clusterOf) Withdraw(context.Context, decide.Plan) error {
	return c.effect("withdraws", func() { c.h.town.locked, c.h.town.announced = false, "" })
}

func (c *clusterOf) Unlock(context.Context, decide.Plan) error {
	c.h.town.locked = false
	return nil
}

func text(p decide.Plan) string {
	data, _ := json.Marshal(p)
	return string(data)
}

// nodes are those of the API.
func (w *town) nodes() []state.Node {
	var out []state.Node
	for _, name := range names {
		h := w.hosts[name]
		if name == w.out || h.gone {
			continue
		}
		n := state.Node{Name: name, Ready: !h.away, Annotations: map[string]string{}, Addresses: []netip.Addr{netip.MustParseAddr("10.98.0.11")}}
		if h.told != "" {
			n.Annotations[install.Annotation] = h.told
		}
		if h.both {
			n.Addresses = append(n.Addresses, netip.MustParseAddr("fd98::11"))
		}
		out = append(out, n)
	}
	return out
}

// rests lets the hosts work until nothing changes any more. A host that is cut begins anew.
func (w *town) rests(t *testing.T) {
	t.Helper()
	for idle := 0; idle < 3; {
		before := fmt.Sprint(w.log, w.crashes, w.nodes(), w.announced)
		w.look(t)
		if fmt.Sprint(w.log, w.crashes, w.nodes(), w.announced) == before {
			idle++
		} else {
			idle = 0
		}
		if len(w.log) > 200 {
			t.Fatalf("it never rests: %v", w.log[180:])
		}
	}
}

// look lets each host look once, and act.
func (w *town) look(t *testing.T) {
	t.Helper()
	w.now = w.now.Add(time.Minute)
	for _, name := range names {
		if name != w.out {
			w.lookAt(t, name)
		}
	}
}

// lookAt lets one host look.
func (w *town) lookAt(t *testing.T, name string) {
	t.Helper()
	h := w.hosts[name]
	h.Nodes(w.nodes())
	h.Infrastructure(kube.Infrastructure{DualStack: w.announced})
	if _, err := h.step(t.Context()); errors.Is(err, powercut.Err) {
		w.crashes++
		w.Cut, w.out = powercut.Cut{}, w.burns
		h.begin()
	} else if err != nil && !errors.Is(err, install.ErrTakenBack) && (w.other == nil || !errors.Is(err, w.other)) {
		t.Fatalf("%s: %v", name, err)
	}
	if h.wish { // its turn
		h.boot, h.wish, h.both = h.boot+1, false, h.files
	}
}

// wrong says what is not right at the end.
func (w *town) wrong(both bool) string {
	var out []string
	for _, name := range names {
		if name == w.out {
			continue
		}
		h := w.hosts[name]
		p, _, err := h.Store.Load()
		if err != nil || p != nil || h.told != "" || h.both != both || h.files != both || h.serve != (both && name != "w-1") || h.shares != map[bool]int{false: 1, true: 2}[both] {
			out = append(out, fmt.Sprintf("%s: %v plan %v told %q %+v", name, err, p != nil, h.told, *h))
		}
	}
	if w.announced != "" || w.locked || w.settled != both || w.noted != both || w.routed != both {
		out = append(out, fmt.Sprintf("announced %q locked %v settled %v", w.announced, w.locked, w.settled))
	}
	return strings.Join(out, "\n")
}
