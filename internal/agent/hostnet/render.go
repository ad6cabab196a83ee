package hostnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/holdfast/holdfast/internal/agent/network"
	"github.com/holdfast/holdfast/internal/agent/network/balancer"
	"github.com/holdfast/holdfast/internal/decide/apilb"
	"github.com/holdfast/holdfast/internal/decide/names"
	"github.com/holdfast/holdfast/internal/decide/resolver"
	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/payload"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/render/coredns"
	"github.com/holdfast/holdfast/internal/render/haproxy"
	"github.com/holdfast/holdfast/internal/render/keepalived"
	"github.com/holdfast/holdfast/internal/render/resolvconf"
)

// Rendered holds what the agent would write for one part of a host's network.
type Rendered struct {
	Part string `json:"part"`
	// Why gives the reason, in a line.
	Why   string       `json:"why"`
	Files []state.File `json:"files"`
}

// Parts returns the parts that can be rendered, in the order of display.
func Parts() []string { return []string{"keepalived", "haproxy", "coredns", "resolver"} }

// Render returns what the agent would write for a part. Below root it reads what
// the view does not hold: the cluster's authority, the resolver's present
// configuration, and whether there is a name server.
func Render(part string, v state.NetworkView, root string) (Rendered, error) {
	switch part {
	case "keepalived":
		return renderKeepalived(v)
	case "haproxy":
		return renderHAProxy(v, root)
	case "coredns":
		return renderCoreDNS(v, root)
	case "resolver":
		return renderResolver(v, root)
	}
	return Rendered{}, fmt.Errorf("%q is not a part of a host's network: must be one of %v", part, Parts())
}

func renderKeepalived(v state.NetworkView) (Rendered, error) {
	out := Rendered{Part: "keepalived"}
	verdict := vrrp.Instances(v)
	out.Why = verdict.Why
	if !verdict.Known {
		out.Why += ": existing files are kept"
		return out, nil
	}
	conf, err := keepalived.Render(keepalived.HostOf(verdict, v.Settings))
	if err != nil {
		return out, err
	}
	pod, err := keepalived.Pod(payload.Image("keepalived"))
	out.Files = []state.File{{Path: keepalived.ConfigPath, Data: conf}, {Path: keepalived.PodPath, Data: pod, Mode: state.SecretFileMode}}
	return out, err
}

func renderHAProxy(v state.NetworkView, root string) (Rendered, error) {
	out := Rendered{Part: "haproxy"}
	wanted, backends := apilb.Wanted(v), apilb.Backends(v)
	switch {
	case !wanted.Known || !backends.Known:
		out.Why = "the view lacks facts: existing files are kept"
		return out, nil
	case !wanted.Value:
		out.Why = "this host has no load balancer"
		return out, nil
	}
	ca, err := os.ReadFile(filepath.Join(root, balancer.CAPath))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	_, v6 := apilb.Families(v)
	out.Why = fmt.Sprintf("%d API servers", len(backends.Value))
	out.Files, err = haproxy.Files(haproxy.Site{V6: v6, Backends: backends.Value, CA: ca, Paths: haproxy.HostPaths}, payload.Image("haproxy"), "")
	return out, err
}

// renderCoreDNS renders nothing where the site provides the names. Only a host
// that already has a name server, from the time before, keeps it.
func renderCoreDNS(v state.NetworkView, root string) (Rendered, error) {
	out := Rendered{Part: "coredns"}
	if !names.Ours(v) {
		_, err := os.Stat(filepath.Join(root, coredns.PodPath))
		if errors.Is(err, fs.ErrNotExist) {
			out.Why = "names are the site's, as the load balancer is: this host needs no name server"
			return out, nil
		}
		if err != nil {
			return out, err
		}
	}
	zone, named := names.Decide(v)
	server, placed := names.DecideServer(v)
	if !named || !placed {
		out.Why = "the view lacks facts: existing files are kept"
		return out, nil
	}
	conf := coredns.Config(server, coredns.ZonePath)
	pod, err := coredns.Pod(payload.Image("coredns"))
	out.Why = fmt.Sprintf("%d nodes, %d name servers of the site", len(v.Nodes.Value), len(v.Upstreams))
	out.Files = []state.File{
		{Path: coredns.ZonePath, Data: coredns.Zone(zone)}, {Path: coredns.ConfigPath, Data: conf}, {Path: coredns.PodPath, Data: pod, Mode: state.SecretFileMode},
	}
	return out, err
}

func renderResolver(v state.NetworkView, root string) (Rendered, error) {
	out := Rendered{Part: "resolver"}
	now, err := os.ReadFile(filepath.Join(root, resolvconf.Path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return out, err
	}
	original, was, _ := resolvconf.Split(now)
	d := resolver.Decide(v, resolver.Memory{Answered: state.Is(v.LocalDNS, true)})
	out.Why = d.Reason
	switch d.Do {
	case resolver.Leave:
		out.Why += ": existing files are kept"
	case resolver.Prepend:
		data := resolvconf.Prepend(original, resolvconf.Own{Server: d.Server, Search: d.Search}, was)
		out.Files = []state.File{{Path: resolvconf.Path, Data: data}}
	case resolver.Restore:
		out.Files = []state.File{{Path: resolvconf.Path, Data: original}}
	}
	return out, nil
}

// ReadView reads a view, either bare or as a part of the status that the agent
// leaves in /run.
func ReadView(data []byte) (state.NetworkView, error) {
	var status struct {
		View *state.NetworkView `json:"view"`
	}
	if err := json.Unmarshal(data, &status); err != nil {
		return state.NetworkView{}, fmt.Errorf("not JSON of a view: %w", err)
	}
	if status.View != nil {
		return *status.View, nil
	}
	var v state.NetworkView
	if err := json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("not a view: %w", err)
	}
	if v.Settings.Cluster == "" {
		return v, errors.New("not a view: settings.cluster is missing")
	}
	return v, nil
}

// ReadStatus reads the status that the agent left in a file.
func ReadStatus(path string) (network.Status, error) {
	var s network.Status
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, fmt.Errorf("%s does not exist: does the agent run (systemctl status holdfast-agent)? %w", path, err)
	}
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(data, &s); err != nil {
		return s, fmt.Errorf("%s: of another version, or damaged: %w", path, err)
	}
	return s, nil
}
