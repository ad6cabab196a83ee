// Package keepalived renders the configuration that lets hosts hold the
// cluster's virtual IPs by VRRP, and the static pod that runs it.
package keepalived

import (
	"bytes"
	"fmt"
	"net/netip"
	"slices"
	"text/template"
)

// Base priorities of the API instances. A bootstrapping host holds the VIP
// until the cluster stands, whatever the others say; among control planes the
// one whose API server answers wins.
const (
	BootstrapPriority    = 70
	ControlPlanePriority = 40
	apiWeight            = 20
)

// AdvertInterval is the time between adverts in seconds. A dead holder is
// noticed after three of them and a skew: 0.2 s gave a gap of 0.61 to 0.69 s,
// also with busy CPUs, and 0.1 s did not come up cleanly
// (measured: docs/adr/0006).
const AdvertInterval = 0.2

// Instance is one VRRP instance: one virtual IP of one family.
type Instance struct {
	// Name is unique on the host.
	Name string
	VIP  netip.Addr
	// Interface carries the VIP.
	Interface string
	// Source is this host's own address of the VIP's family.
	Source netip.Addr
	// Peers are the other hosts' addresses of the same family.
	Peers []netip.Addr
	// RouterID is the VRRP virtual router id, 1 to 255.
	RouterID uint8
	// Priority is the base priority, before checks add to it.
	Priority int
}

// RouterIDs returns the virtual router ids of a cluster's API and ingress
// instances: a Fletcher-8 checksum of the name, moved off zero and apart.
func RouterIDs(cluster string) (api, ingress uint8) {
	api, ingress = fletcher8(cluster+"-api")+1, fletcher8(cluster+"-ingress")+1
	if api == ingress {
		ingress++
	}
	return api, ingress
}

// fletcher8 is Fletcher's checksum with four-bit sums, modulo 15.
func fletcher8(s string) uint8 {
	var sum, sums uint16
	for _, b := range []byte(s) {
		sum = (sum + uint16(b)) % 15
		sums = (sums + sum) % 15
	}
	return uint8(sums<<4 | sum)
}

// Site is what decides the API instances of one host.
type Site struct {
	Cluster   string
	VIPs      []netip.Addr
	Interface string
	// Own are this host's addresses on the machine network.
	Own []netip.Addr
	// ControlPlanes are the addresses of all control planes, this host's among
	// them.
	ControlPlanes []netip.Addr
	// Bootstrap is true while this host brings the cluster up.
	Bootstrap bool
}

// Instances returns the API instances that this host takes part in: those of
// a VIP of whose family the host is itself among the control planes. A host
// that is missing from its own view of the cluster stays out, since whatever
// else that view says may be old; only the bootstrapping host needs no view.
func Instances(s Site) []Instance {
	router, _ := RouterIDs(s.Cluster)
	var out []Instance
	for i, vip := range s.VIPs {
		own, ok := ownAddress(s, vip)
		if !ok {
			continue
		}
		out = append(out, Instance{
			Name: fmt.Sprintf("%s_API_%d", s.Cluster, i), VIP: vip, Interface: s.Interface,
			Source: own, Peers: peers(s.ControlPlanes, own), RouterID: router, Priority: priority(s.Bootstrap),
		})
	}
	return out
}

func ownAddress(s Site, vip netip.Addr) (netip.Addr, bool) {
	for _, a := range s.Own {
		if a.Is4() == vip.Is4() && (s.Bootstrap || slices.Contains(s.ControlPlanes, a)) {
			return a, true
		}
	}
	return netip.Addr{}, false
}

func peers(all []netip.Addr, own netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range all {
		if a.Is4() == own.Is4() && a != own && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return out
}

func priority(bootstrap bool) int {
	if bootstrap {
		return BootstrapPriority
	}
	return ControlPlanePriority
}

// Prefix returns the VIP as keepalived wants it: a host route.
func (i Instance) Prefix() string { return netip.PrefixFrom(i.VIP, i.VIP.BitLen()).String() }

// Config renders keepalived.conf. Without instances it renders a file that
// keepalived accepts and that holds no address.
func Config(instances []Instance) ([]byte, error) {
	var out bytes.Buffer
	if err := configTemplate.Execute(&out, map[string]any{
		"Instances": instances, "Advert": AdvertInterval, "Weight": apiWeight, "Check": CheckCommand,
	}); err != nil {
		return nil, fmt.Errorf("render keepalived.conf: %w", err)
	}
	return out.Bytes(), nil
}

// CheckCommand asks the host's own API server whether it can serve; --max-time
// is below the check's interval.
const CheckCommand = "/usr/bin/curl --silent --fail --insecure --max-time 0.9 --output /dev/null https://localhost:6443/readyz"

// configTemplate is the whole file. Who holds a VIP says so every 2 s: in a split
// both hosts hold it, the one that is then fenced may have been the last to say
// so, and clients would go on asking it (16 s were seen in the lab).
var configTemplate = template.Must(template.New("keepalived.conf").Parse(`# Written by holdfast-agent; changes are overwritten.
global_defs {
    enable_script_security
    script_user root
    max_auto_priority -1
    vrrp_version 3
    vrrp_garp_master_refresh 2
    vrrp_garp_master_delay 1
}

vrrp_script api_server {
    script "{{.Check}}"
    interval 1
    timeout 1
    rise 2
    fall 2
    weight {{.Weight}}
}
{{range .Instances}}
vrrp_instance {{.Name}} {
    state BACKUP
    interface {{.Interface}}
    virtual_router_id {{.RouterID}}
    priority {{.Priority}}
    advert_int {{$.Advert}}
    unicast_src_ip {{.Source}}
    unicast_peer {
{{- range .Peers}}
        {{.}}
{{- end}}
    }
    track_script {
        api_server
    }
    virtual_ipaddress {
        {{.Prefix}} dev {{.Interface}}
    }
}
{{end}}`))
