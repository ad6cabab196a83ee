package firewall

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/decide/ports"
	"github.com/holdfast/holdfast/internal/model/state"
)

// site returns a host with these files and the answers of its programs.
func site(t *testing.T, others []Other, files map[string]string, answers map[string]string) Site {
	t.Helper()
	root := t.TempDir()
	for path, text := range files {
		at := filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return Site{Root: root, Others: func() ([]Other, error) { return others, nil }, Run: func(_ context.Context, c host.Cmd) ([]byte, error) {
		if text, ok := answers[c.String()]; ok {
			return []byte(text), nil
		}
		return nil, errors.New(c.String() + ": no such program")
	}}
}

var (
	worker = ports.Kind{Flannel: true}
	here   = ports.Place{
		Interface: "eth0", Machines: []netip.Prefix{netip.MustParsePrefix("10.98.0.0/24")}, Pods: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/14")},
	}
)

func TestFirewallsOfASite(t *testing.T) {
	firewalld := map[string]string{
		"firewall-cmd --state":                    "running\n",
		"firewall-cmd --list-all-zones":           "public (default, active)\n  target: default\n  interfaces: eth0\n  services: ssh ours\n  ports: \n\ntrusted\n  target: ACCEPT\n  sources: 10.128.0.0/14\n",
		"firewall-cmd --info-service=ssh":         "ssh\n  ports: 22/tcp\n  includes: \n",
		"firewall-cmd --info-service=ours":        "ours\n  ports: 53/tcp 53/udp 10250/tcp\n  protocols: vrrp\n  includes: more ours\n",
		"firewall-cmd --info-service=more":        "more\n  ports: 5353/udp 80/tcp 443/tcp 1936/tcp 10256/tcp 30000-32767/tcp 30000-32767/udp\n",
		"firewall-cmd --info-service=unconcerned": "",
	}
	installed := map[string]string{firewallCmd: ""}
	theirs := []Other{{Table: "inet firewalld", Chain: "filter_INPUT"}, {Table: "inet firewalld", Chain: "filter_FORWARD", Forward: true}}
	for name, c := range map[string]struct {
		site Site
		want []state.SiteFirewall
	}{
		"none":                        {site(t, nil, nil, nil), nil},
		"firewalld that lacks a port": {site(t, theirs, installed, firewalld), []state.SiteFirewall{{Name: "firewalld", Cluster: []string{"8472/udp"}}}},
		"firewalld that does not run": {site(t, nil, installed, nil), nil},
		"ufw that is off":             {site(t, nil, map[string]string{ufwConf: "ENABLED=no\n"}, nil), nil},
		"ufw that lets all in, but no pods": {
			site(t, []Other{{Table: "ip filter", Chain: "INPUT"}}, map[string]string{ufwConf: "# x\nENABLED=yes\n"}, map[string]string{
				"ufw status verbose": "Status: active\nDefault: deny (incoming)\n\nAnywhere  ALLOW IN    10.98.0.0/16\n",
			}),
			[]state.SiteFirewall{{Name: "ufw", Pods: []string{"10.128.0.0/14"}}},
		},
		"rules of the site's own": {
			site(t, []Other{{Table: "inet filter", Chain: "input"}}, nil, nil),
			[]state.SiteFirewall{{Name: "chain input of table inet filter", Unjudged: true}},
		},
	} {
		got, err := c.site.Inspect(t.Context(), worker, here)
		if diff := cmp.Diff(c.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestAFirewallThatDoesNotAnswerIsToldAndNotJudged(t *testing.T) {
	s := site(t, nil, map[string]string{firewallCmd: ""}, map[string]string{"firewall-cmd --state": "running\n"})
	got, err := s.Inspect(t.Context(), worker, here)
	if err == nil || !strings.Contains(err.Error(), "ask firewalld: ") || len(got) != 1 || !got[0].Unjudged || got[0].Refuses() {
		t.Errorf("%+v, %v", got, err)
	}
}
