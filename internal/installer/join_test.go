package installer_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/ignition"
	"github.com/holdfast/holdfast/internal/jointoken"
	"github.com/holdfast/holdfast/internal/sitetest"
	"github.com/holdfast/holdfast/internal/state"
)

// ingress-installer.md, hard case 21: a worker joins after 30 days.
func TestAJoinConfigOpensTheServerOfAnOldCluster(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	before := d.files()
	d.now = sitetest.Created.Add(30 * 24 * time.Hour)
	path, until, err := d.JoinConfig(state.RoleWorker, 2*time.Hour)
	if err != nil || !until.Equal(d.now.Add(2*time.Hour)) {
		t.Fatalf("until %s, %v", until, err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := ignition.Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(*cfg.Ignition.Config.Merge[0].HTTPHeaders[0].Value, "Bearer ")
	s, err := d.Made()
	if err != nil {
		t.Fatal(err)
	}
	verify := func(role state.Role, at time.Time) error {
		return jointoken.Verify(s.Identity.JoinKey, token, role, at)
	}
	if err := verify(state.RoleWorker, until.Add(-time.Second)); err != nil {
		t.Errorf("before its end: %v", err)
	}
	if verify(state.RoleWorker, until) == nil || verify(state.RoleMaster, d.now) == nil {
		t.Error("it opens more than was asked for")
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != state.SecretFileMode {
		t.Errorf("%v, %v", info, err)
	}
	after := d.files()
	delete(after, "join-worker.ign")
	for path, text := range before {
		if after[path] != text {
			t.Errorf("%s changed", path)
		}
	}
	if len(after) != len(before) {
		t.Error("other files came or went")
	}
}

func TestAJoinConfigIsForOneOfTwoRolesAndAWeekAtMost(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	_, _, err := d.JoinConfig(state.RoleWorker, time.Hour)
	wantInputError(t, err, "nothing was made in")
	d.must(d.IgnitionConfigs)
	_, _, err = d.JoinConfig(state.RoleBootstrap, time.Hour)
	wantInputError(t, err, `role "bootstrap": must be worker or master`)
	for _, life := range []time.Duration{0, -time.Hour, 8 * 24 * time.Hour} {
		_, _, err = d.JoinConfig(state.RoleWorker, life)
		wantInputError(t, err, "must be 1m0s to 168h0m0s")
	}
}
