// Package keepalived renders the configuration that lets hosts hold the
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

// AdvertInterval is the time between adverts in seconds. A dead holder is
// noticed after three of them and a skew: 0.2 s gave a gap of 0.61 to 0.69 s,
// also with busy CPUs (measured: docs/adr/0006).
const AdvertInterval = 0.2

// TrackDir holds the files by which the agent tells keepalived how strongly to
// ask for the VIPs. It ends with the boot, and what it said with it.
const TrackDir = "/run/holdfast/keepalived/track"

// VRRPPIDFile holds the pid of the process that speaks VRRP; PIDFile that of
// its parent, which starts it anew and takes signals.
const VRRPPIDFile = "/run/holdfast/keepalived/vrrp.pid"

// Host is everything that keepalived on one host is configured from.
type Host struct {
	Instances []vrrp.Instance
	// Sync lets the VIPs of one kind move together.
	Sync bool
	// TrackDir is where the track files lie.
	TrackDir string
	// First returns the value that a kind's track file gets where there is none.
	First func(vrrp.Kind) int
}

// HostOf returns the configuration of a host that takes part in what a verdict
// says.
func HostOf(verdict vrrp.Verdict, s state.NetworkSettings) Host {
	return Host{
		Instances: verdict.Instances, Sync: verdict.Sync, TrackDir: TrackDir,
		First: func(k vrrp.Kind) int { return vrrp.First(k, s) },
	}
}

// Track is one track file as keepalived reads it.
type Track struct {
	Name string
	// Weight multiplies what the file says; with 0 anything but 0 is a fault.
	Weight int
	First  int
}

// Group is a sync group: VIPs of one kind that are on one host at any time.
type Group struct {
	Name    string
	Members []string
	Tracks  []Track
}

// Tracks lists the track files: one per kind, whose number is added to the
// priority, and one per instance, which bars it. The names of the files are
// those of the kind and of the instance.
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

// File is where a track file lies.
func (h Host) File(t Track) string { return filepath.Join(h.TrackDir, t.Name) }

// Own are the track files of an instance. In a sync group they are the group's.
func (h Host) Own(i vrrp.Instance) []Track {
	if slices.ContainsFunc(h.Groups(), func(g Group) bool { return slices.Contains(g.Members, i.Name) }) {
		return nil
	}
	return []Track{h.kindTrack(i.Kind), {Name: i.Name}}
}

// Groups are the sync groups: none, unless asked for and of more than one VIP.
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

// Peers are those that an instance sends its adverts to. Without any keepalived
// would send them to everybody by multicast, into other clusters: a host that
// is alone sends them to nobody. What these addresses mean never leaves a host.
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

// HostRoute is a VIP as keepalived wants it.
func (Host) HostRoute(vip netip.Addr) string { return netip.PrefixFrom(vip, vip.BitLen()).String() }

// Advert is the time between two adverts, in seconds.
func (Host) Advert() float64 { return AdvertInterval }

// Render renders keepalived.conf. Without instances keepalived accepts the file
// and holds nothing.
func Render(h Host) ([]byte, error) {
	var out bytes.Buffer
	if err := hostTemplate.Execute(&out, h); err != nil {
		return nil, fmt.Errorf("render keepalived.conf: %w", err)
	}
	return out.Bytes(), nil
}

// hostTemplate is the whole file.
//
//   - A source that is no peer, or more than one hop away, is not listened to:
//     VRRP has no other way to know a friend (hard case 19).
//   - Who becomes master announces the VIP five times, again a second later, and
//     then every 2 s: in a split both hosts hold it, the one that is then fenced
//     may have been the last to say so, and clients would go on asking it (16 s
//     were seen in the lab). Of two masters the lower says so once more, upon
//     which the other announces itself again.
//   - There is no vrrp_rt_priority: with it keepalived limits its own time on the
//     CPU to 10 ms between two waits, and a reload that takes longer kills it
//     (seen with 2.2.7). The agent asks for the scheduling from outside.
//   - There are no scripts: health is the agent's to find out.
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
