package firewall

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

// Site reads the firewalls that the site runs on a host. It changes nothing.
type Site struct {
	// Root is the prefix of every path.
	Root   string
	Run    func(context.Context, host.Cmd) ([]byte, error)
	Others func() ([]Other, error)
}

// ThisSite returns the Site of this host.
func ThisSite() Site { return Site{Root: "/", Run: host.Run, Others: Table{}.Others} }

// The program of firewalld, and the file in which ufw stores whether it is on.
const (
	firewallCmd = "/usr/bin/firewall-cmd"
	ufwConf     = "/etc/ufw/ufw.conf"
)

// toolTime bounds one question to one of these programs.
const toolTime = 10 * time.Second

// Inspect returns the firewalls that are active on the host, and what each refuses
// of what a host of this kind needs.
func (s Site) Inspect(ctx context.Context, kind ports.Kind, at ports.Place) ([]state.SiteFirewall, error) {
	others, err := s.Others()
	if err != nil {
		return nil, err
	}
	var out []state.SiteFirewall
	var errs []error
	for _, program := range []struct {
		name   string
		look   func(context.Context, ports.Place) (ports.Openings, bool, error)
		tables []string // the tables that it creates
	}{
		{"firewalld", s.firewalld, []string{"inet firewalld", "ip firewalld", "ip6 firewalld", "ip filter", "ip6 filter"}},
		{"ufw", s.ufw, []string{"ip filter", "ip6 filter"}},
	} {
		open, active, err := program.look(ctx, at)
		if err != nil {
			errs = append(errs, fmt.Errorf("ask %s: %w", program.name, err))
		}
		if !active {
			continue
		}
		out = append(out, judged(program.name, open, kind, at, err != nil))
		others = slices.DeleteFunc(others, func(o Other) bool { return slices.Contains(program.tables, o.Table) })
	}
	for _, o := range others {
		out = append(out, state.SiteFirewall{Name: o.String(), Unjudged: true})
	}
	return out, errors.Join(errs...)
}

func judged(name string, open ports.Openings, kind ports.Kind, at ports.Place, failed bool) state.SiteFirewall {
	f := state.SiteFirewall{Name: name, Unjudged: failed || open.Unsure}
	if failed {
		return f
	}
	f.Cluster, f.Applications = open.Refused(kind)
	for _, p := range at.Pods {
		if !slices.ContainsFunc(open.Pods, func(o netip.Prefix) bool { return o == p }) {
			f.Pods = append(f.Pods, p.String())
		}
	}
	return f
}

// firewalld asks firewalld, if it runs.
func (s Site) firewalld(ctx context.Context, at ports.Place) (open ports.Openings, active bool, err error) {
	if _, err := os.Stat(filepath.Join(s.Root, firewallCmd)); err != nil {
		return open, false, nil //nolint:nilerr // it is not installed
	}
	if out, err := s.tool(ctx, "firewall-cmd", "--state"); err != nil || strings.TrimSpace(string(out)) != "running" {
		return open, false, nil //nolint:nilerr // it says by its exit code that it does not run
	}
	text, err := s.tool(ctx, "firewall-cmd", "--list-all-zones")
	if err != nil {
		return open, true, err
	}
	open = ports.FirewalldZones(string(text), at)
	asked := map[string]bool{}
	for i := 0; i < len(open.Services) && i < maxServices; i++ {
		name := open.Services[i]
		if asked[name] {
			continue
		}
		asked[name] = true
		text, err := s.tool(ctx, "firewall-cmd", "--info-service="+name)
		if err != nil {
			return open, true, err
		}
		open.Add(ports.FirewalldService(string(text)))
	}
	return open, true, nil
}

// maxServices bounds how many services are looked up.
const maxServices = 64

// ufw asks ufw, if it is switched on.
func (s Site) ufw(ctx context.Context, at ports.Place) (open ports.Openings, active bool, err error) {
	conf, err := os.ReadFile(filepath.Join(s.Root, ufwConf))
	if errors.Is(err, fs.ErrNotExist) {
		return open, false, nil
	}
	if err != nil || !slices.ContainsFunc(bytes.Split(conf, []byte("\n")), func(l []byte) bool { return string(bytes.TrimSpace(l)) == "ENABLED=yes" }) {
		return open, false, err
	}
	text, err := s.tool(ctx, "ufw", "status", "verbose")
	if err != nil {
		return open, true, err
	}
	open, active = ports.UFW(string(text), at)
	return open, active, nil
}

func (s Site) tool(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, toolTime, fmt.Errorf("no answer in %s", toolTime))
	defer cancel()
	return s.Run(ctx, host.Command(name, args...))
}
