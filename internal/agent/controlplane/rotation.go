package controlplane

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/holdfast/holdfast/internal/agent/loop"
	"github.com/holdfast/holdfast/internal/agent/rotation"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// rotationTask does this host's part when an authority is replaced.
func (r *Agent) rotationTask() loop.Task {
	return rotation.New(rotation.Options{
		Node: r.facts.NodeName, ControlPlanes: r.Site.Topology().ControlPlanes, Secret: r.Site.Identity.EncryptionRoot,
		Life: r.Site.Config.CertificateLife(),
		Open: func() (rotation.Cluster, error) { return r.open() },
		OpenAt: func(address string) (rotation.Server, error) {
			return openBy(state.AgentKubeconfig, "https://"+address)
		},
		Endpoint: net.JoinHostPort("127.0.0.1", strconv.Itoa(site.APIPort)),
		Etcd:     r.etcd(), Kept: r.Site.Topology().Fencing, Gauge: r.Rotations,
		Log: r.Log, Now: r.Now,
	}).Task(notSetUp)
}

// etcd returns the address at which this host itself reaches its etcd.
func (r *Agent) etcd() string {
	var own netip.Addr
	if len(r.facts.Addresses) > 0 {
		own = r.facts.Addresses[0]
	}
	return strings.TrimPrefix(etcdpod.LocalURL(own), "https://")
}
