package kubeadm_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/golden"
	"github.com/holdfast/holdfast/internal/render/kubeadm"
	"github.com/holdfast/holdfast/internal/sitetest"
	"github.com/holdfast/holdfast/internal/state"
)

func host(v1 bool, addresses ...string) state.HostFacts {
	f := state.HostFacts{NodeName: "cp-1", Interface: "eth0", CgroupV1: v1, RestrictOOM: v1}
	for _, a := range addresses {
		f.Addresses = append(f.Addresses, netip.MustParseAddr(a))
	}
	return f
}

func TestInitMatchesTheApprovedFile(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		host   state.HostFacts
	}{
		"init-one-none.yaml": {sitetest.OneNone, host(false, "10.98.0.11")},
		"init-two-dual.yaml": {sitetest.TwoDual, host(true, "10.98.0.11", "fd98::11")},
		"init-three-v6.yaml": {sitetest.ThreeV6, host(false, "fd98::11")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := kubeadm.Init(sitetest.New(t, c.config), c.host, false)
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, got)
		})
	}
}

// kubeadm refuses "all" beside the name of a single check.
func TestResumingSkipsAllChecksAndNamesNone(t *testing.T) {
	got, err := kubeadm.Init(sitetest.New(t, sitetest.OneNone), host(true, "10.98.0.11"), true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), "ignorePreflightErrors:\n  - all\n  imagePullPolicy") {
		t.Errorf("got\n%s", got)
	}
}

func TestJoinMatchesTheApprovedFile(t *testing.T) {
	for name, c := range map[string]struct {
		config string
		role   state.Role
		host   state.HostFacts
		before kubeadm.Progress
	}{
		"join-master-dual.yaml": {sitetest.TwoDual, state.RoleMaster, host(false, "10.98.0.12", "fd98::12"), kubeadm.Progress{}},
		"join-worker-v6.yaml":   {sitetest.ThreeV6, state.RoleWorker, host(true, "fd98::31"), kubeadm.Progress{}},
		"join-resumed.yaml": {
			sitetest.TwoDual, state.RoleMaster, host(true, "10.98.0.12", "fd98::12"),
			kubeadm.Progress{Resuming: true, KubeletBootstrapped: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := sitetest.New(t, c.config)
			got, err := kubeadm.Join(s, c.role, c.host, c.before)
			if err != nil {
				t.Fatal(err)
			}
			hash, err := s.Identity.CAHash()
			if err != nil {
				t.Fatal(err)
			}
			golden.Check(t, name, []byte(strings.ReplaceAll(string(got), hash, "sha256:CA")))
		})
	}
}
