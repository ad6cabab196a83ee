package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/holdfast/holdfast/internal/cli/place"
	decide "github.com/holdfast/holdfast/internal/decide/doctor"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/doctor"
	"github.com/holdfast/holdfast/internal/report/doctor/cluster"
	"github.com/holdfast/holdfast/internal/report/observer"
)

// gather returns all facts. Facts that it cannot get are unknown; it fails only
// if it gets none at all.
func (f *doctorFlags) gather(ctx context.Context) (decide.Facts, error) {
	if f.facts != "" {
		return recordedFacts(f.facts)
	}
	p, err := f.place.Open(ctx)
	if err != nil {
		return decide.Facts{}, err
	}
	var found decide.Facts
	var hosts []decide.Host
	var noAPI error
	group, inner := errgroup.WithContext(ctx)
	group.Go(func() error {
		found, noAPI = askAPI(inner, p, f.in != "")
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
	facts := decide.Merge(found, hosts, time.Now())
	if facts.Topology.ControlPlanes == 0 {
		return facts, noCluster(errors.Join(noAPI, troubles(hosts)))
	}
	return facts, nil
}

// noCluster says that no cluster was found and, if that is known, why.
func noCluster(why error) error {
	err := errors.New("no cluster found, neither in the API nor on a host: run it on a host with sudo, or give --kubeconfig or --hosts")
	if why != nil {
		err = fmt.Errorf("%w: %w", err, why)
	}
	return err
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

// askAPI asks the API, and if wanted also for what will end.
func askAPI(ctx context.Context, p place.Place, ends bool) (decide.Facts, error) {
	access, err := p.Access(ctx)
	if err != nil {
		return decide.Facts{}, err
	}
	c, err := cluster.Open(access)
	if err != nil {
		return decide.Facts{}, err
	}
	found, err := c.Gather(ctx)
	if err == nil && ends {
		c.Ends(ctx, &found)
	}
	return found, err
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
	h := doctor.ObserveThisHost(ctx, disk)
	h.Source, h.Offset = decide.Here, state.Known(decide.Offset{})
	if os.Geteuid() != 0 {
		h.Trouble = append(h.Trouble, "doctor does not run as root and cannot read much of this host: run it with sudo")
	}
	return append(hosts, h)
}

// hostTimeout bounds the time for one host. Each of its questions has a bound of
// its own.
const hostTimeout = 60 * time.Second

// ask asks the host's agent for its checks, and measures the offset of its clock
// at the same time.
func ask(ctx context.Context, asked place.Host, disk bool) decide.Host {
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	parts := []hostreport.Part{hostreport.Checks}
	if disk {
		parts = append(parts, hostreport.Disk)
	}
	begin := time.Now()
	r, err := observer.Ask(ctx, asked.Name, asked.Run, parts...)
	end := time.Now()
	if err != nil {
		return decide.Host{Name: asked.Name, Trouble: []string{err.Error()}}
	}
	h := r.Doctor.Value
	h.Source, h.Offset = decide.Asked, state.Known(cluster.Between(h, begin, end))
	return h
}
