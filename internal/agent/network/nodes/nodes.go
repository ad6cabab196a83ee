// Package nodes is the source of the cluster's nodes: one watch of the API, and
// the last whole list on the disk for a host that boots without the API. If the
// API has lost the Nodes or labels of control planes, it goes on with what it
// knows of them (decide/peers).
package nodes

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"sync"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/peers"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Path is the file in which a host keeps the last whole list of nodes.
const Path = state.NodesPath

// Source is the source of NetworkView.Nodes and Stale.
type Source struct {
	Servers *kube.Servers
	// Path is the file with the last whole list.
	Path string
	// Site holds the facts about the site that peers.Merge needs.
	Site peers.Site
	Logf func(format string, args ...any)
	// Here returns nodes with the addresses at which this host finds them; nil if those are the
	// listed ones.
	Here func([]state.Node) []state.Node

	mu        sync.Mutex
	last      []state.Node
	listeners []func([]state.Node)
	// stored is the list on the disk, trouble why a newer one could not be written.
	// Only Run uses them.
	stored  []state.Node
	trouble string
}

// Name implements network.Source.
func (s *Source) Name() string { return "nodes" }

// Listen registers a function that gets each whole list as the API gave it, so
// that a host needs one watch only. Call it before Run. The function must not
// block for long.
func (s *Source) Listen(heard func([]state.Node)) { s.listeners = append(s.listeners, heard) }

// Last returns the last whole list, or nil before the first one.
func (s *Source) Last() []state.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.last
}

// Run implements network.Source.
func (s *Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	if stored := s.load(); len(stored) > 0 {
		s.stored = stored
		list := s.here(stored) // of two hosts that move, the first one back has no API yet
		s.keep(list)
		update(func(v *state.NetworkView) { v.Nodes, v.Stale = state.Known(list), true })
	}
	return kube.FollowNodes(ctx, s.Servers, s.Logf, func(listed []state.Node) {
		before := s.Last()
		if len(listed) == 0 && len(before) > 0 {
			s.Logf("the API lists no nodes, which is impossible: continuing with the %d known ones", len(before))
			return
		}
		list := s.here(peers.Merge(before, listed, s.Site))
		s.tell(before, list)
		if differ(s.stored, list) {
			s.store(list)
		}
		s.keep(list)
		update(func(v *state.NetworkView) { v.Nodes, v.Stale = state.Known(list), false })
		for _, heard := range s.listeners {
			heard(listed)
		}
	})
}

// here returns nodes with the addresses at which this host finds them now: those of the other place
// of a move that it found them at before do not count.
func (s *Source) here(list []state.Node) []state.Node {
	list = slices.Clone(list)
	for i := range list {
		list[i].Also = nil
	}
	if s.Here == nil {
		return list
	}
	return s.Here(list)
}

// tell logs which control planes have lost their Node or labels, or have them
// again.
func (s *Source) tell(before, now []state.Node) {
	for _, n := range now {
		i := slices.IndexFunc(before, func(o state.Node) bool { return o.Name == n.Name })
		was := i >= 0 && before[i].Absent
		if n.Absent != was && n.Absent {
			s.Logf("the API no longer has the Node of control plane %s: continuing with its last known state", n.Name)
		} else if n.Absent != was {
			s.Logf("the API has the Node of control plane %s again", n.Name)
		}
	}
}

func (s *Source) keep(list []state.Node) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = list
}

// differ reports whether two lists differ in what is worth a write to the disk.
// Readiness, a cordon and what hosts hold are not: a boot makes them old anyway.
func differ(a, b []state.Node) bool { return !reflect.DeepEqual(lasting(a), lasting(b)) }

func lasting(list []state.Node) []state.Node {
	out := slices.Clone(list)
	for i, n := range list {
		report := state.ParseAnnotation[state.VIPReport](n.Annotations[state.AnnotationVIPs]).Value
		out[i].Ready, out[i].Silent, out[i].Cordoned, out[i].Annotations = false, false, false, map[string]string{
			state.AnnotationVIPs: state.FormatAnnotation(state.VIPReport{Addresses: report.Addresses, Hardware: report.Hardware, BMCs: report.BMCs}),
		}
	}
	return out
}

// load returns the list of an earlier run. An unreadable file counts as none: the
// API has it all.
func (s *Source) load() []state.Node {
	data, err := os.ReadFile(s.Path)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.Logf("nodes of an earlier run: %v", err)
		}
		return nil
	}
	var list []state.Node
	if err := json.Unmarshal(data, &list); err != nil {
		s.Logf("nodes of an earlier run: %s: %v", s.Path, err)
		return nil
	}
	return list
}

// store writes a list. What cannot be written is tried again with the next event of
// the watch, and told once.
func (s *Source) store(list []state.Node) {
	data, err := json.Marshal(list)
	if err == nil {
		err = host.WriteFileAtomic(s.Path, append(data, '\n'), state.DefaultFileMode)
	}
	if err == nil {
		s.stored, s.trouble = list, ""
		return
	}
	if err.Error() != s.trouble {
		s.trouble = err.Error()
		s.Logf("keep nodes for the next boot: %v", err)
	}
}
