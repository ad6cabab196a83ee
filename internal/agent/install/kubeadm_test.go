package install

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
)

// foreignRun is a host whose operating system is new, and whose disk of etcd has data of a former site.
func foreignRun(t *testing.T, role state.Role) *run {
	t.Helper()
	r, _ := newRun(t, role)
	r.root = t.TempDir()
	if err := os.MkdirAll(filepath.Join(r.root, state.EtcdDataDir, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

// The first refusal was kubeadm's. Its second run, three seconds later, skipped all checks, and went
// on over the data.
func TestKubeadmDoesNotGoOnOverDataOfAFormerSite(t *testing.T) {
	for name, c := range map[string]struct {
		role  state.Role
		began string
		do    func(*run) func(context.Context) error
	}{
		"init":               {state.RoleBootstrap, beganInit, func(r *run) func(context.Context) error { return r.kubeadmInit }},
		"join":               {state.RoleMaster, beganJoin, func(r *run) func(context.Context) error { return r.kubeadmJoin }},
		"join as third host": {state.RoleMaster, beganJoin, func(r *run) func(context.Context) error { return r.prepareThird }},
	} {
		r := foreignRun(t, c.role)
		for try := range 2 {
			err := c.do(r)(t.Context())
			if err == nil || !strings.Contains(err.Error(), "/var/lib/etcd has data of another etcd: an installation begins on a blank host") || !strings.Contains(err.Error(), "/var/lib/etcd/member ") {
				t.Errorf("%s, try %d: %v", name, try, err)
			}
		}
		if host.Exists(r.startedPath(c.began)) {
			t.Errorf("%s: the next try would count as resuming", name)
		}
	}
}

// By it the control planes refuse a host that would start etcd from nothing under the id of a member that
// has run. etcd goes by its log: without one it starts from nothing.
func TestAHostSaysWhetherItsEtcdStartsFromNothing(t *testing.T) {
	r := foreignRun(t, state.RoleMaster)
	r.facts.Addresses = []netip.Addr{netip.MustParseAddr("2001:db8::13")}
	if got := r.newEtcd(); got != "https://[2001:db8::13]:2380" {
		t.Errorf("without a log: %q", got)
	}
	logs := filepath.Join(r.root, state.EtcdDataDir, "member", "wal")
	if err := errors.Join(os.Mkdir(logs, 0o700), os.WriteFile(filepath.Join(logs, "0.wal"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := r.newEtcd(); got != "" {
		t.Errorf("with a log: %q", got)
	}
}

// An earlier run of this installation, or its restore, made the data.
func TestDataOfThisInstallationAreNoHindrance(t *testing.T) {
	r := foreignRun(t, state.RoleBootstrap)
	if _, err := r.started(beganInit); err != nil {
		t.Fatal(err)
	}
	if err := r.blank(beganInit); err != nil {
		t.Error(err)
	}
	restored := foreignRun(t, state.RoleBootstrap)
	restored.Site.Restore = &site.Restore{}
	if err := restored.blank(beganInit); err != nil {
		t.Errorf("a restore has brought the data before: %v", err)
	}
	blank, _ := newRun(t, state.RoleMaster)
	if blank.root = t.TempDir(); blank.blank(beganJoin) != nil {
		t.Error("a blank host is refused")
	}
}
