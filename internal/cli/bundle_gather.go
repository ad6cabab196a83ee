package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/site"
	support "github.com/holdfast/holdfast/internal/report/bundle"
)

// gatherBundle finds the sources of a bundle. At this point it contacts only
// holdfast-lab.
func gatherBundle(cmd *cobra.Command, f *bundleFlags) (gathered, error) {
	if f.lab != "" {
		return gatherLab(cmd, f)
	}
	g := gathered{name: "cluster"}
	for _, name := range f.reach.hosts {
		g.hosts = append(g.hosts, namedRun{name, host.Through(f.reach.exec, name)})
	}
	if err := g.here(f); err != nil {
		return g, err
	}
	g.cluster(cmp.Or(f.kubeconfig, os.Getenv("KUBECONFIG"), hostKubeconfig()))
	for _, h := range g.hosts {
		g.items = append(g.items, support.Host(h.name, f.since, h.run)...)
	}
	if len(g.items) == 0 {
		return g, &UsageError{Err: errors.New("nothing to collect from: this machine is not a host of a cluster, and no kubeconfig was found: give --kubeconfig, --hosts or --lab")}
	}
	return g, nil
}

// here adds this machine if it is a host of the cluster.
func (g *gathered) here(f *bundleFlags) error {
	if _, err := os.Stat(site.Path); errors.Is(err, os.ErrNotExist) {
		if len(f.reach.hosts) == 0 {
			g.notes = append(g.notes, "no data from hosts: this machine is not a host of the cluster, and --hosts is empty")
		}
		return nil
	}
	if f.kubeconfig != "" || len(f.reach.hosts) > 0 {
		return nil // the caller may mean another cluster
	}
	if os.Geteuid() != 0 && !f.dryRun {
		return errors.New("only root can read the state of a host: run it with sudo")
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("name of this host: %w", err)
	}
	g.name = strings.ToLower(name)
	g.hosts = append(g.hosts, namedRun{g.name, host.Local})
	return nil
}

// cluster adds the API. A missing API becomes a note and does not stop the
// rest.
func (g *gathered) cluster(kubeconfig string) {
	if _, err := os.Stat(kubeconfig); err != nil {
		g.notes = append(g.notes, fmt.Sprintf("no data from the API: %v", err))
		return
	}
	c, err := openBundleAPI(kubeconfig)
	if err != nil {
		g.notes = append(g.notes, fmt.Sprintf("no data from the API: %v", err))
		return
	}
	g.items = append(g.items, c.Items()...)
}

func openBundleAPI(kubeconfig string) (*support.Cluster, error) {
	access := kube.Access{Kubeconfig: kubeconfig}
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

// gatherLab collects from the API and all hosts of a lab.
func gatherLab(cmd *cobra.Command, f *bundleFlags) (gathered, error) {
	g := gathered{name: "lab-" + f.lab}
	at, err := labPlace(cmd.Context(), f.lab)
	if err != nil {
		return g, err
	}
	for _, h := range at.Hosts {
		g.hosts = append(g.hosts, namedRun{h.Name, host.Behind(h.Enter)})
	}
	if path, err := at.APIAccess(); err != nil {
		g.notes = append(g.notes, fmt.Sprintf("no data from the API: %v", err))
	} else {
		g.cluster(path)
	}
	for _, h := range g.hosts {
		g.items = append(g.items, support.Host(h.name, f.since, h.run)...)
	}
	g.items = append(g.items, labLog(at.Log))
	return g, nil
}

func labLog(path string) support.Item {
	return support.Item{
		Path: "lab.log", From: "lab", What: "log of the lab's daemon", Tail: true,
		Collect: func(context.Context) ([]byte, error) { return os.ReadFile(path) },
	}
}
