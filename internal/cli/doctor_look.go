package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/doctor"
	"github.com/holdfast/holdfast/internal/report/doctor/cluster"
)

// look gathers all facts. Facts that it cannot get are unknown; it fails only
// if it gets none at all.
func (f *doctorFlags) look(ctx context.Context) (decide.Facts, error) {
	if f.facts != "" {
		return recordedFacts(f.facts)
	}
	p, err := f.place.Open(ctx)
	if err != nil {
		return decide.Facts{}, err
	}
	var found cluster.Found
	var hosts []decide.Host
	var noAPI error
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		found, noAPI = askAPI(inner, p)
		return nil
	})
	group.Go(func() error {
		hosts = askHosts(inner, p, f.disk)
		return nil
	})
	_ = group.Wait()
	if noAPI != nil {
		found.Cluster.Trouble = append(found.Cluster.Trouble, "the API: "+noAPI.Error())
	}
	facts := merge(found, hosts, time.Now())
	if facts.Topology.ControlPlanes == 0 {
		return facts, fmt.Errorf("no cluster found, neither in the API nor on a host: run it on a host with sudo, or give --kubeconfig or --hosts: %w",
			errors.Join(noAPI, troubles(hosts)))
	}
	return facts, nil
}

func troubles(hosts []decide.Host) error {
	var out []error
	for _, h := range hosts {
		for _, t := range h.Trouble {
			out = append(out, fmt.Errorf("%s: %s", h.Name, t))
		}
	}
	return errors.Join(out...)
}

func askAPI(ctx context.Context, p place.Place) (cluster.Found, error) {
	access, err := p.Access()
	if err != nil {
		return cluster.Found{}, err
	}
	c, err := cluster.Open(access)
	if err != nil {
		return cluster.Found{}, err
	}
	return c.Look(ctx)
}

// askHosts asks all control planes in parallel, and looks at this host if it
// belongs to the cluster.
func askHosts(ctx context.Context, p place.Place, disk bool) []decide.Host {
	asked := p.ControlPlanes()
	hosts := make([]decide.Host, len(asked))
	var group errgroup.Group
	for i, h := range asked {
		group.Go(func() error {
			hosts[i] = ask(ctx, h, disk)
			return nil
		})
	}
	_ = group.Wait()
	if p.Here == nil {
		return hosts
	}
	site, err := doctor.ReadSite()
	h := doctor.This(site, disk).Host(ctx)
	h.Source, h.Offset = decide.Here, state.Known(decide.Offset{})
	if os.Geteuid() != 0 {
		h.Trouble = append(h.Trouble, "doctor does not run as root and cannot read much of this host: run it with sudo")
	}
	if err != nil {
		h.Trouble = append(h.Trouble, err.Error())
	}
	return append(hosts, h)
}

// askTime bounds the time for one host. Each of its questions has a bound of
// its own.
const askTime = 60 * time.Second

// ask runs the checks of the host's agent, and measures the offset of its clock
// at the same time.
func ask(ctx context.Context, asked place.Host, disk bool) decide.Host {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	line := []string{"holdfast-agent", "doctor", "-o", "json"}
	if disk {
		line = append(line, "--disk")
	}
	begin := time.Now()
	text, err := asked.Run(ctx, line...)
	end := time.Now()
	var h decide.Host
	if err == nil {
		if err = json.Unmarshal(text, &h); err != nil {
			err = fmt.Errorf("cannot parse the answer of holdfast-agent there; it may be missing or of another version: %w", err)
		}
	}
	if err != nil {
		return decide.Host{Name: asked.Name, Trouble: []string{err.Error()}}
	}
	if h.Name != asked.Name {
		return decide.Host{Name: asked.Name, Trouble: []string{fmt.Sprintf("another host answers there: %s", h.Name)}}
	}
	h.Source, h.Offset = decide.Asked, state.Known(cluster.Between(h, begin, end))
	return h
}

// merge combines the facts from the API and from hosts. A host's answer now has
// precedence over its published facts, and those over nothing.
func merge(found cluster.Found, hosts []decide.Host, now time.Time) decide.Facts {
	facts := decide.Facts{At: now, Topology: found.Topology, Cluster: found.Cluster, Hosts: found.Hosts}
	for _, h := range hosts {
		i := slices.IndexFunc(facts.Hosts, func(o decide.Host) bool { return o.Name == h.Name })
		switch {
		case i < 0 && found.Cluster.Nodes.Known && h.Source == decide.Here:
			// A worker: workers are not checked.
		case i < 0:
			facts.Hosts = append(facts.Hosts, h)
		case h.Source == decide.Unasked:
			facts.Hosts[i].Trouble = append(facts.Hosts[i].Trouble, h.Trouble...)
		default:
			h.Offset = closer(facts.Hosts[i].Offset, h.Offset)
			facts.Hosts[i] = h
		}
		if t := h.Topology; t.Known && facts.Topology.ControlPlanes == 0 {
			facts.Topology = t.Value
		}
	}
	facts.Hosts = missing(facts)
	slices.SortFunc(facts.Hosts, func(a, b decide.Host) int { return strings.Compare(a.Name, b.Name) })
	return forget(facts)
}

// missing adds the control planes that no source reported: under the name by
// which a peer can fence them, or as a nameless one.
func missing(facts decide.Facts) []decide.Host {
	hosts := facts.Hosts
	add := func(name string) {
		if !slices.ContainsFunc(hosts, func(h decide.Host) bool { return h.Name == name }) {
			hosts = append(hosts, decide.Host{Name: name})
		}
	}
	for _, h := range facts.Hosts {
		for _, b := range h.BMCs.Value {
			add(b.Target)
		}
	}
	if len(hosts) < facts.Topology.ControlPlanes {
		add("another control plane")
	}
	return hosts
}

// tooOld is the greatest age of published facts that still count. An agent
// publishes every half hour.
const tooOld = 2 * time.Hour

// forget drops facts that were published too long ago by the host's own clock.
// The host's clock may be wrong; the check of the clocks reports that.
func forget(facts decide.Facts) decide.Facts {
	for i, h := range facts.Hosts {
		if age := facts.At.Sub(h.To); h.Source == decide.Published && age > tooOld {
			facts.Hosts[i] = decide.Host{
				Name: h.Name, Offset: h.Offset, Topology: h.Topology,
				Trouble: []string{fmt.Sprintf("its agent has published nothing for %s: see holdfast-agent.service there", age.Round(time.Minute))},
			}
		}
	}
	return facts
}

// closer returns the offset with the smaller uncertainty.
func closer(a, b state.Fact[decide.Offset]) state.Fact[decide.Offset] {
	if !a.Known || b.Known && b.Value.High-b.Value.Low <= a.Value.High-a.Value.Low {
		return b
	}
	return a
}
