package upgrade

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/probe"
	"github.com/holdfast/holdfast/internal/agent/network/nodes"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/decide/upgrade/gate"
	"github.com/holdfast/holdfast/internal/decide/upgrade/parachute"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	unit "github.com/holdfast/holdfast/internal/render/host"
)

// KindOf returns the kind of this host in its site.
func KindOf(s *site.Site) parachute.Kind {
	switch planes := s.Topology().ControlPlanes; {
	case !s.Role.ControlPlane():
		return parachute.Worker
	case planes < 2:
		return parachute.Alone
	case s.Topology().Fencing:
		return parachute.OfTwo
	}
	return parachute.OfMore
}

// Serves asks this host's API server whether it serves, its etcd included.
func Serves(ctx context.Context) state.Fact[bool] {
	return probe.Serves(ctx, serverAt("127.0.0.1"), state.KubernetesCA)
}

// PeerServes asks the other control planes of a list of nodes, one after the other,
// until one serves.
func PeerServes(ctx context.Context, self string, list []state.Node) state.Fact[bool] {
	out := state.Known(false)
	for _, n := range list {
		if n.Name == self || !n.ControlPlane() || len(n.Addresses) == 0 {
			continue
		}
		switch said := nodeServes(ctx, n); {
		case state.Is(said, true):
			return said
		case !said.Known:
			out = said
		}
	}
	return out
}

// Spare asks all other control planes of a list of nodes: etcd of three keeps its majority without
// this host if two others serve. few is true if the list has only one other.
func Spare(ctx context.Context, self string, list []state.Node) (spare state.Fact[bool], few bool) {
	return spared(self, list, func(n state.Node) state.Fact[bool] { return nodeServes(ctx, n) })
}

// nodeServes asks the API server of a node that has an address.
func nodeServes(ctx context.Context, n state.Node) state.Fact[bool] {
	return probe.Serves(ctx, serverAt(n.Addresses[0].String()), state.KubernetesCA)
}

func spared(self string, list []state.Node, serves func(state.Node) state.Fact[bool]) (spare state.Fact[bool], few bool) {
	others, yes, unknown := 0, 0, 0
	for _, n := range list {
		if n.Name == self || !n.ControlPlane() {
			continue
		}
		others++
		said := state.Fact[bool]{}
		if len(n.Addresses) > 0 {
			said = serves(n)
		}
		switch {
		case state.Is(said, true):
			yes++
		case !said.Known:
			unknown++
		}
	}
	// An empty list is one that nobody has read.
	known := yes >= 2 || unknown == 0 && others > 0
	return state.Fact[bool]{Known: known, Value: known && yes >= 2}, others == 1
}

func serverAt(address string) string {
	return net.JoinHostPort(address, strconv.Itoa(apilb.ServerPort))
}

// NewParachute returns the way back of the running host.
func NewParachute(s *site.Site, self string, releases Releases, event func(state.Event)) Parachute {
	m := newMachine(KindOf(s), releases)
	h := m.host()
	h.Serves = Serves
	h.PeerServes = func(ctx context.Context) state.Fact[bool] {
		list, err := knownNodes()
		if err != nil {
			return state.Fact[bool]{}
		}
		return PeerServes(ctx, self, list)
	}
	h.Spare = func(ctx context.Context) (state.Fact[bool], bool) {
		list, err := knownNodes()
		if err != nil {
			return state.Fact[bool]{}, false
		}
		return Spare(ctx, self, list)
	}
	h.Newer = NewerBy(releases)
	return Parachute{
		Host: h, Kind: m.kind, Now: time.Now, Releases: releases, Event: event,
		Turn:       func(ctx context.Context) state.Fact[parachute.Turn] { return turnOf(ctx, self) },
		StopAgent:  func(ctx context.Context) error { return m.systemctl(ctx, "stop", unit.AgentUnit) },
		SwitchBack: func(context.Context) error { return m.switchBack() },
	}
}

// turnLimit bounds the question what the cluster wants.
const turnLimit = 3 * time.Second

// turnOf asks the API server of this host what the cluster wants of it, by the account of kubelet, as
// the agent does. It is unknown where that does not answer.
func turnOf(ctx context.Context, self string) state.Fact[parachute.Turn] {
	ctx, cancel := context.WithTimeout(ctx, turnLimit)
	defer cancel()
	client, err := kube.OpenAt(state.KubeletKubeconfig, "https://"+serverAt("127.0.0.1"))
	if err != nil {
		return state.Fact[parachute.Turn]{}
	}
	node, err := client.Node(ctx, self)
	if err != nil || node == nil {
		return state.Fact[parachute.Turn]{}
	}
	turn := turnIn(node.Annotations)
	return state.Fact[parachute.Turn]{Known: turn.Known, Value: turn.Value.Of()}
}

// switchBack has the one link lead to the old release, if the journal says so. First it gives
// back what was kept of the disk for that.
func (m machine) switchBack() error {
	j, _, err := m.store.Read()
	if err != nil {
		return err
	}
	if j.Step != parachute.Returning {
		return fmt.Errorf("switch back: the journal of the upgrade says %q", j.Step)
	}
	if err := m.store.GiveBack(); err != nil {
		return fmt.Errorf("give back what was kept of the disk for a return: %w", err)
	}
	return m.switchTo(j.From, "")
}

// knownNodes returns the nodes that the agent last knew.
func knownNodes() ([]state.Node, error) {
	data, err := os.ReadFile(nodes.Path)
	if err != nil {
		return nil, err
	}
	var out []state.Node
	return out, json.Unmarshal(data, &out)
}

// SwitchThisHost has the one link lead to the release that the journal names. It
// refuses unless the journal says that the host is switched now. On the way to another minor
// release of Kubernetes, kubelet stays that of the old release.
func SwitchThisHost(ctx context.Context, kind parachute.Kind, releases Releases) error {
	return newMachine(kind, releases).switchForward(ctx, loadEtcd)
}

// switchForward loads etcd, which may take minutes, and then asks the journal again: by then the
// host may be on its way back. Nobody decides until the link is set.
func (m machine) switchForward(ctx context.Context, load func(ctx context.Context, digest string) error) error {
	j, err := m.toSwitch()
	if err != nil {
		return err
	}
	if m.kind == parachute.OfTwo {
		if err := load(ctx, j.To); err != nil {
			return err
		}
	}
	unlock, err := m.store.Lock()
	if err != nil {
		return fmt.Errorf("switch this host: %w", err)
	}
	defer unlock()
	if j, err = m.toSwitch(); err != nil {
		return err
	}
	level, err := m.pods.Level(j.From, j.To)
	if err != nil {
		return err
	}
	held := ""
	if level != "" {
		held = j.From
	}
	return m.switchTo(j.To, held)
}

// toSwitch returns the journal of a host that is switched now.
func (m machine) toSwitch() (parachute.Journal, error) {
	j, _, err := m.store.Read()
	if err == nil && j.Step != parachute.Switched {
		err = fmt.Errorf("switch this host: the journal of its upgrade says %q, and not that it is switched", j.Step)
	}
	return j, err
}

// RaiseThisHost has kubelet be that of the release that this host runs. It refuses while the
// journal says that there is a way back.
func RaiseThisHost() error { return newMachine(parachute.Worker, nil).letKubeletRise() }

// BeforeKubelet makes this host ready for a start of kubelet on the way to another release:
// it has the static pods of the release that is chosen, and no memory of kubelet that a
// power cut has torn. It says what it moved away.
func BeforeKubelet() (said string, err error) {
	said, torn := mendCheckpoints("/")
	return said, errors.Join(newMachine(parachute.Worker, nil).pods.Settle(), torn)
}

// NewerBy returns what names the data of this host that a release cannot read, by what
// both releases say of themselves: a release writes the format that it says until its
// own upgrade is committed.
func NewerBy(releases Releases) func(old, now string) state.Fact[string] {
	return func(old, now string) state.Fact[string] {
		was, err := releases.About(old)
		if err != nil {
			return state.Fact[string]{}
		}
		is, err := releases.About(now)
		if err != nil {
			return state.Fact[string]{}
		}
		if is.Etcd.Series() != was.Etcd.Series() && is.Etcd.Compare(was.Etcd) > 0 {
			return state.Known("the data of etcd, which " + is.Etcd.String() + " may have raised")
		}
		var names []string
		for name, n := range written(is) {
			if f, knows := was.Formats[name]; knows && (n < f.Reads.Min || n > f.Reads.Max) {
				names = append(names, name)
			}
		}
		if len(names) == 0 {
			return state.Known("")
		}
		slices.Sort(names)
		return state.Known("what this host has in the formats " + strings.Join(names, ", "))
	}
}

// written has the number that a release writes of each format.
func written(r gate.Release) map[string]int {
	out := map[string]int{}
	for name, f := range r.Formats {
		out[name] = f.Writes
	}
	return out
}
