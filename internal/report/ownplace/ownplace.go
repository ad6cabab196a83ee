// Package ownplace asks the cluster whether another machine has the place of this host
// (docs/adr/0083). The host's agent and the command that confirms ask the same; decide/replace
// says what follows.
package ownplace

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/replacement"
	"github.com/holdfast/holdfast/internal/decide/replace"
	"github.com/holdfast/holdfast/internal/fence"
	"github.com/holdfast/holdfast/internal/install/configserver"
	"github.com/holdfast/holdfast/internal/keeper/keeperclient"
	"github.com/holdfast/holdfast/internal/model/corosync"
	"github.com/holdfast/holdfast/internal/model/retired"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

const (
	// askTime bounds each of the questions.
	askTime = 5 * time.Second
	// The other control plane is asked up to tries times, each time for tryTime: while a new
	// machine has the address of this host, too, many answers get lost on their way to that one.
	tries    = 4
	tryTime  = time.Second
	tryPause = 250 * time.Millisecond
)

// Look asks the cluster about this host, everybody at once. What it does not learn stays
// unknown. While etcd runs here it asks the other control planes alone, and these only if
// serving is true: the API may be this host's own.
func Look(ctx context.Context, of *site.Site, name string, serving bool) replace.Self {
	s := replace.Self{Installed: host.Exists(state.InstalledPath), MachineID: Machine(), Etcd: runs(ctx, of)}
	var all sync.WaitGroup
	if state.Is(s.Etcd, true) && serving || state.Is(s.Etcd, false) {
		all.Go(func() { s.Told = told(ctx, of, name) })
		all.Go(func() { s.Succeeded = Succeeded(ctx, of, name) })
	}
	if state.Is(s.Etcd, false) {
		all.Go(func() { askAPI(ctx, of, name, &s) })
	}
	all.Wait()
	return s
}

// runs reports whether etcd runs here. One of two asks its etcd keeper. Elsewhere kubelet runs etcd. On
// a host that is out of its site systemd starts neither (render/host.LifeUnits).
func runs(ctx context.Context, of *site.Site) (is state.Fact[bool]) {
	if of.Topology().Fencing {
		if report, err := keeperclient.Report(ctx, state.EtcdSocketPath); err == nil {
			return report.Snapshot.Local.Running
		}
	}
	switch out := host.Exists(replacement.OustedPath); {
	case out:
		return state.Known(false)
	case of.Topology().Fencing:
		return is
	}
	return state.Known(true)
}

// askAPI adds what the API says.
func askAPI(ctx context.Context, of *site.Site, name string, s *replace.Self) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	api, err := API(of)
	if err != nil {
		return
	}
	if list, err := api.Retired(ctx, name); err == nil {
		s.Entry = state.Known[*retired.Host](nil)
		if entry, listed := list.Of(name); listed {
			s.Entry = state.Known(&entry)
		}
	}
	if n, err := api.Node(ctx, name); err == nil {
		s.Node = state.Known("")
		if n != nil {
			s.Node = state.Known(n.Status.NodeInfo.MachineID)
		}
	}
}

// told asks the other control plane whether another machine has the place of this one. It is
// empty if that one does not say so, or does not answer.
func told(ctx context.Context, s *site.Site, name string) string {
	uuid, serial, err := fence.OwnIdentity()
	if err != nil {
		return ""
	}
	client := &configserver.Client{ServerName: s.APIName(), CA: s.Identity.ConfigCA.Cert}
	for _, n := range others(name) {
		if len(n.Addresses) > 0 {
			client.Addresses = append(client.Addresses, site.HostPort(n.Addresses[0], site.ConfigServerPort))
		}
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for range tries {
		out, err := outOf(ctx, client, name, state.Machine{UUID: uuid, Serial: serial})
		if err == nil {
			return out
		}
		if host.Sleep(ctx, tryPause) != nil {
			break
		}
	}
	return "" // the API may still say it
}

// outOf asks once.
func outOf(ctx context.Context, client *configserver.Client, name string, m state.Machine) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	return client.OutOf(ctx, name, m)
}

// others returns the other nodes in Corosync's list; none if there is no list, or nobody can read it.
func others(name string) []corosync.Node {
	text, err := os.ReadFile(corosync.Path)
	if err != nil {
		return nil
	}
	conf, err := corosync.Parse(text)
	if err != nil {
		return nil
	}
	return slices.DeleteFunc(conf.Nodes, func(n corosync.Node) bool { return n.Name == name })
}

// Machine returns the machine id of this host, empty if it cannot be read.
func Machine() string {
	data, err := os.ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}

// API opens the cluster of a site with the account of the agent or of kubelet. On a control plane
// both accounts lead to its own API server, which may no longer be a part of the cluster, so API
// asks at the cluster's address; without a site, where the account leads.
func API(of *site.Site) (*kube.Client, error) {
	access := Access()
	if access == "" {
		return nil, errors.New("this host has no account of its cluster")
	}
	server := ""
	if of != nil {
		server = "https://" + of.APIEndpoint()
	}
	return kube.OpenAt(access, server)
}

// Access returns the account of the agent or, before there is one, that of kubelet; empty if the
// host has neither.
func Access() string {
	for _, path := range []string{state.AgentKubeconfig, state.KubeletKubeconfig} {
		if host.Exists(path) {
			return path
		}
	}
	return ""
}
