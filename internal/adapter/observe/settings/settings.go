// Package settings provides the cluster's settings of its own network: first
// from the site's configuration, then from the Infrastructure object once the
// API shows it, and in between from the disk.
package settings

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Path is the file in which a host keeps the last settings from the API.
const Path = "/var/lib/holdfast/network/settings.json"

// FromSite returns the initial settings of a site.
func FromSite(s *site.Site) (state.NetworkSettings, error) {
	machines, err := s.MachineNetworks()
	pods, errPods := s.PodNetworks()
	services, errServices := s.ServiceNetworks()
	if err := errors.Join(err, errPods, errServices); err != nil {
		return state.NetworkSettings{}, err
	}
	t := s.Topology()
	return state.NetworkSettings{
		Cluster: s.Config.Metadata.Name, Domain: s.Domain(), ManagedVIPs: t.HasVIPs,
		APIVIPs: s.Config.APIVIPs(), IngressVIPs: s.Config.IngressVIPs(), MachineNetworks: machines, PodNetworks: pods, ServiceNetworks: services,
		ControlPlanes: t.ControlPlanes, Fencing: t.Fencing,
	}, nil
}

// Load returns the settings with which a host starts: those of an earlier run
// if they exist and can be used, otherwise the site's.
func Load(s *site.Site, path string) (state.NetworkSettings, error) {
	first, err := FromSite(s)
	if err != nil {
		return first, err
	}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return first, nil
	}
	if err != nil {
		return first, fmt.Errorf("settings of an earlier run: %w", err)
	}
	var kept kube.Infrastructure
	if err := json.Unmarshal(data, &kept); err != nil {
		return first, nil //nolint:nilerr // as good as none: the API has it all
	}
	if next, ok := Apply(first, kept); ok {
		return next, nil
	}
	return first, nil
}

// Apply returns the settings as changed by the Infrastructure object, and
// whether the object can be believed: one that lacks what its platform must
// have is half written.
func Apply(s state.NetworkSettings, in kube.Infrastructure) (state.NetworkSettings, bool) {
	if !in.BareMetal {
		return s, false
	}
	if in.UserManaged {
		s.ManagedVIPs, s.APIVIPs, s.IngressVIPs = false, nil, nil
	} else {
		if len(in.APIVIPs) == 0 || len(in.IngressVIPs) == 0 || slices.ContainsFunc(slices.Concat(in.APIVIPs, in.IngressVIPs), invalid) {
			return s, false
		}
		s.ManagedVIPs, s.APIVIPs, s.IngressVIPs = true, in.APIVIPs, in.IngressVIPs
	}
	if len(in.MachineNetworks) > 0 {
		s.MachineNetworks = in.MachineNetworks
	}
	s.RouterIDs, s.SyncFamilies, s.NameClients = in.RouterIDs, in.SyncFamilies, in.NameClients
	return s, true
}

func invalid(a netip.Addr) bool { return !a.IsValid() }

// Source is the source of NetworkView.Settings. The view begins with the result
// of Load.
type Source struct {
	Servers *kube.Servers
	// Path is the file with the last settings from the API.
	Path string
	Logf func(format string, args ...any)
	// Heard hears each object, and reports whether the network of this host may follow it:
	// a host that has moved knows more of its place than the object. It may be nil.
	Heard func(kube.Infrastructure) bool

	mu sync.Mutex
	// unstored are settings that the disk lacks, nil if it has the last ones.
	unstored *kube.Infrastructure
}

// storeAgain is the pause after a write that failed.
const storeAgain = time.Minute

// Name implements network.Source.
func (s *Source) Name() string { return "settings" }

// Run implements network.Source.
func (s *Source) Run(ctx context.Context, update func(func(*state.NetworkView))) error {
	var last *kube.Infrastructure
	return kube.FollowInfrastructure(ctx, s.Servers, s.Logf, func(in kube.Infrastructure) {
		if s.Heard != nil && !s.Heard(in) {
			return
		}
		if last != nil && reflect.DeepEqual(*last, in) {
			return
		}
		var before, after state.NetworkSettings
		believed := false
		update(func(v *state.NetworkView) {
			before = v.Settings
			after, believed = Apply(v.Settings, in)
			v.Settings = after
		})
		if !believed {
			return
		}
		last = &in
		s.keep(ctx, in)
		if !reflect.DeepEqual(before.VIPs(), after.VIPs()) {
			s.Logf("virtual IPs are now %v, before %v", after.VIPs(), before.VIPs())
		}
	})
}

// keep writes the settings for the next boot.
func (s *Source) keep(ctx context.Context, in kube.Infrastructure) {
	s.mu.Lock()
	s.unstored = &in
	s.mu.Unlock()
	s.store(ctx)
}

// store writes what the disk lacks, and tries again until it has: the object may stay as
// it is for years.
func (s *Source) store(ctx context.Context) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.unstored == nil || ctx.Err() != nil {
		return
	}
	data, err := json.Marshal(s.unstored)
	if err == nil {
		_, err = host.WriteFiles("/", []state.File{{Path: s.Path, Data: append(data, '\n')}})
	}
	if err != nil {
		s.Logf("keep settings for the next boot: %v", err)
		time.AfterFunc(storeAgain, func() { s.store(ctx) })
		return
	}
	s.unstored = nil
}
