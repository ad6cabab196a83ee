// Package keepalived renders the configuration with which hosts hold the
// cluster's virtual IPs by VRRP, and the static pod that runs it.
package keepalived

import (
	"bytes"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"text/template"

	"github.com/holdfast/holdfast/internal/decide/vrrp"
	"github.com/holdfast/holdfast/internal/model/state"
)

// AdvertInterval is the time between adverts, in seconds. The other hosts
// notice a dead holder after three of them and a skew: 0.2 s gave a gap of 0.61
// to 0.69 s, even with busy CPUs (measured: docs/adr/0006).
const AdvertInterval = 0.2

// TrackDir is the folder of the files in which the agent tells keepalived its
// priority for the VIPs. The folder and its contents end with the boot.
const TrackDir = "/run/holdfast/keepalived/track"

// VRRPPIDFile holds the pid of the process that speaks VRRP, PIDFile that of
// its parent, which restarts it and receives signals.
const VRRPPIDFile = "/run/holdfast/keepalived/vrrp.pid"

// Host holds the inputs of keepalived's configuration on one host.
type Host struct {
	Instances []vrrp.Instance
	// Sync makes the VIPs of one kind move together.
	Sync bool
	// TrackDir is the folder of the track files.
	TrackDir string
	// First returns the value that a kind's track file gets if it does not exist.
	First func(vrrp.Kind) int
}

// HostOf returns the configuration of a host from a verdict.
func HostOf(verdict vrrp.Verdict, s state.NetworkSettings) Host {
	return Host{
		Instances: verdict.Instances, Sync: verdict.Sync, TrackDir: TrackDir,
		First: func(k vrrp.Kind) int { return vrrp.First(k, s) },
	}
}

// Track is a track file as keepalived reads it.
type Track struct {
	Name string
	// Weight is the factor for the file's value; with 0, any value but 0 is a
	// fault.
	Weight int
	First  int
}

// Group is a sync group: VIPs of one kind that are always on the same host.
type Group struct {
	Name    string
	Members []string
	Tracks  []Track
}

// Tracks returns the track files: one per kind, whose value is added to the
// priority, and one per instance, which can bar it. Each file has the name of
// its kind or instance.
func (h Host) Tracks() []Track {
	var out []Track
	for _, i := range h.Instances {
		if kind := h.kindTrack(i.Kind); !slices.Contains(out, kind) {
			out = append(out, kind)
		}
		out = append(out, Track{Name: i.Name})
	}
	return out
}

func (h Host) kindTrack(k vrrp.Kind) Track {
	return Track{Name: string(k), Weight: 1, First: h.First(k)}
}

// File returns the path of a track file.
func (h Host) File(t Track) string { return filepath.Join(h.TrackDir, t.Name) }

// Own returns the track files of an instance. An instance in a sync group has
// none, because the group has them.
func (h Host) Own(i vrrp.Instance) []Track {
	if slices.ContainsFunc(h.Groups(), func(g Group) bool { return slices.Contains(g.Members, i.Name) }) {
		return nil
	}
	return []Track{h.kindTrack(i.Kind), {Name: i.Name}}
}

// Groups returns the sync groups: only if requested, and only groups of more
// than one VIP.
func (h Host) Groups() []Group {
	var out []Group
	for _, kind := range []vrrp.Kind{vrrp.API, vrrp.Ingress} {
		g := Group{Name: "sync_" + string(kind), Tracks: []Track{h.kindTrack(kind)}}
		for _, i := range h.Instances {
			if i.Kind == kind {
				g.Members, g.Tracks = append(g.Members, i.Name), append(g.Tracks, Track{Name: i.Name})
			}
		}
		if h.Sync && len(g.Members) > 1 {
			out = append(out, g)
		}
	}
	return out
}

// Peers returns the addresses to which an instance sends its adverts. Without
// any, keepalived would send them to everybody by multicast, into other
// clusters. So a single host gets an address that reaches nobody: packets to it
// never leave the host.
func (Host) Peers(i vrrp.Instance) []netip.Addr {
	switch {
	case len(i.Peers) > 0:
		return i.Peers
	case i.VIP.Is4():
		return []netip.Addr{netip.IPv4Unspecified()}
	default:
		return []netip.Addr{netip.MustParseAddr("ff01::1")}
	}
}

// HostRoute returns a VIP in the form that keepalived takes.
func (Host) HostRoute(vip netip.Addr) string { return netip.PrefixFrom(vip, vip.BitLen()).String() }

// Advert returns the time between two adverts, in seconds.
func (Host) Advert() float64 { return AdvertInterval }

// Render renders keepalived.conf. keepalived accepts a file without instances
// and then holds nothing.
func Render(h Host) ([]byte, error) {
	var out bytes.Buffer
	if err := hostTemplate.Execute(&out, h); err != nil {
		return nil, fmt.Errorf("render keepalived.conf: %w", err)
	}
	return out.Bytes(), nil
}

// hostTemplate is the template of the whole file.
//
//   - Packets from a source that is no peer, or that is more than one hop away, are
//     ignored: VRRP has no other way to recognise a friend (hard case 19).
//   - A new master announces the VIP five times, again a second later, and then
//     every 2 s. In a cut both hosts hold the VIP. The one that is fenced may have
//     been the last to announce it, and clients would go on asking that one (16 s
//     were seen in the lab). Of two masters, the one with the lower priority sends
//     one more advert, and then the other one announces the VIP again.
//   - There is no vrrp_rt_priority: with it, keepalived limits its own CPU time to
//     10 ms between two waits, and a reload that takes longer kills it (seen with
//     2.2.7). The agent sets the scheduling from outside.
//   - There are no scripts: the agent determines the health.
var hostTemplate = template.Must(template.New("keepalived.conf").Parse(`# Written by holdfast-agent; changes are overwritten.
global_defs {
    max_auto_priority -1
    vrrp_version 3
    vrrp_no_swap
    vrrp_check_unicast_src
    vrrp_higher_prio_send_advert true
    vrrp_garp_master_repeat 5
    vrrp_garp_master_delay 1
    vrrp_garp_master_refresh 2
    dynamic_interfaces
}
{{- range .Tracks}}

track_file {{.Name}} {
    file "{{$.File .}}"
    weight {{.Weight}}
    init_file {{.First}}
}
{{- end}}
{{- range .Groups}}

vrrp_sync_group {{.Name}} {
    group {
{{- range .Members}}
        {{.}}
{{- end}}
    }
    track_file {
{{- range .Tracks}}
        {{.Name}}
{{- end}}
    }
    sync_group_tracking_weight
}
{{- end}}
{{- range .Instances}}

vrrp_instance {{.Name}} {
    state BACKUP
    interface {{.Interface}}
    virtual_router_id {{.RouterID}}
    priority {{.Priority}}
    advert_int {{$.Advert}}
    unicast_src_ip {{.Source}}
    track_src_ip
    unicast_ttl 255
    unicast_peer {
{{- range $.Peers .}}
        {{.}} min_ttl 255
{{- end}}
    }
{{- with $.Own .}}
    track_file {
{{- range .}}
        {{.Name}}
{{- end}}
    }
{{- end}}
    virtual_ipaddress {
        {{$.HostRoute .VIP}} dev {{.Device}}
    }
}
{{- end}}
`))
