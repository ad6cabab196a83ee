package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/cli/place"
	support "github.com/holdfast/holdfast/internal/report/bundle"
)

// gatherBundle finds the sources of a bundle. At this point it contacts only
// holdfast-lab, and the API where several ways lead to it.
func gatherBundle(ctx context.Context, f *bundleFlags) (gathered, error) {
	p, err := f.place.Open(ctx)
	if err != nil {
		return gathered{}, err
	}
	g := gathered{name: nameOf(f, p)}
	if err := g.takeHosts(f, p); err != nil {
		return g, err
	}
	g.cluster(ctx, p)
	for _, h := range g.hosts {
		g.items = append(g.items, support.Host(h.Name, f.since, h.Read)...)
	}
	if p.LabLog != "" {
		g.items = append(g.items, labLog(p.LabLog))
	}
	if len(g.items) == 0 {
		return g, &UsageError{Err: errors.New("nothing to collect from: this machine is not a host of a cluster, and no kubeconfig was found: give --kubeconfig, --hosts or --lab")}
	}
	return g, nil
}

// nameOf returns the name of what is collected, for the name of the file.
func nameOf(f *bundleFlags, p place.Place) string {
	switch {
	case f.place.Lab != "":
		return "lab-" + f.place.Lab
	case p.Here != nil && len(p.Hosts) == 0:
		return p.Here.Name
	}
	return "cluster"
}

// takeHosts takes the hosts of the place. Only root can read this one.
func (g *gathered) takeHosts(f *bundleFlags, p place.Place) error {
	g.hosts = p.Hosts
	switch {
	case f.place.Lab != "":
	case p.Here == nil && len(p.Hosts) == 0:
		g.notes = append(g.notes, "no data from hosts: this machine is not a host of the cluster, and --hosts is empty")
	case p.Here == nil:
	case os.Geteuid() == 0 || f.dryRun:
		g.hosts = p.All()
	case f.place.Kubeconfig == "" && len(p.Hosts) == 0:
		return errors.New("only root can read the state of a host: run it with sudo")
	default:
		g.notes = append(g.notes, "no data from this host: only root can read its state")
	}
	return nil
}

// cluster adds the API. A missing API becomes a note and does not stop the
// rest.
func (g *gathered) cluster(ctx context.Context, p place.Place) {
	c, err := openBundleAPI(ctx, p)
	if err != nil {
		g.notes = append(g.notes, fmt.Sprintf("no data from the API: %v", err))
		return
	}
	g.items = append(g.items, c.Items()...)
}

func openBundleAPI(ctx context.Context, p place.Place) (*support.Cluster, error) {
	access, err := p.Access(ctx)
	if err != nil {
		return nil, err
	}
	cfg, err := access.Config()
	if err != nil {
		return nil, err
	}
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	// The client looks up kinds on demand, so that the index can report an API
	// that is down.
	c, err := client.New(cfg, client.Options{Scheme: scheme})
	if err != nil {
		return nil, err
	}
	k, err := access.Client()
	if err != nil {
		return nil, err
	}
	return &support.Cluster{Client: c, Logs: k.PodLogs}, nil
}

func labLog(path string) support.Item {
	return support.Item{
		Path: "lab.log", From: "lab", What: "log of the lab's daemon", Tail: true,
		Collect: func(context.Context) ([]byte, error) { return os.ReadFile(path) },
	}
}
