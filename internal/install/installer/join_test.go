package installer_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coreos/ignition/v2/config/v3_5/types"

	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/ignition"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// docs/facts/ingress.md#cases, 21: a worker joins after 30 days.
func TestAJoinConfigOpensTheServerOfAnOldCluster(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	before := d.files()
	d.now = sitetest.Created.Add(30 * 24 * time.Hour)
	path, until, err := d.JoinConfig(state.RoleWorker, "", 2*time.Hour)
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
	claims, err := jointoken.Read(s.Identity.JoinKey, token, jointoken.Config, until.Add(-time.Second))
	if err != nil || claims.Role != state.RoleWorker || claims.Host != "" {
		t.Errorf("before its end: %+v, %v", claims, err)
	}
	if _, err := jointoken.Read(s.Identity.JoinKey, token, jointoken.Config, until); err == nil {
		t.Error("it opens longer than was asked for")
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
	_, _, err := d.JoinConfig(state.RoleWorker, "", time.Hour)
	wantInputError(t, err, "nothing was made in")
	d.must(d.IgnitionConfigs)
	_, _, err = d.JoinConfig(state.RoleBootstrap, "", time.Hour)
	wantInputError(t, err, `role "bootstrap": must be worker or master`)
	_, _, err = d.JoinConfig(state.RoleWorker, "cp-1", time.Hour)
	wantInputError(t, err, "cp-1 is the name of a control plane")
	for _, life := range []time.Duration{0, -time.Hour, 8 * 24 * time.Hour} {
		_, _, err = d.JoinConfig(state.RoleWorker, "", life)
		wantInputError(t, err, "must be 1m0s to 168h0m0s")
	}
}

// docs/facts/findings.md#installer, D5: the file was made, and the server gave away the whole
// cluster for it.
func TestASiteOfOneGetsNoJoinConfigOfASecondControlPlane(t *testing.T) {
	d := newDirectory(t, sitetest.OneNone)
	d.must(d.IgnitionConfigs)
	before := len(d.files())
	_, _, err := d.JoinConfig(state.RoleMaster, "", time.Hour)
	wantInputError(t, err, "role master: this site has one control plane permanently (controlPlane.replicas: 1); let the host join as a worker, or install a site with 2 or 3")
	if len(d.files()) != before {
		t.Error("a file was written")
	}
}

func TestAJoinConfigMayBeForOneHost(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	d.must(d.IgnitionConfigs)
	path, _, err := d.JoinConfig(state.RoleWorker, "worker-7", time.Hour)
	if err != nil || filepath.Base(path) != "join-worker-7.ign" {
		t.Fatalf("%s, %v", path, err)
	}
	cfg, err := ignition.Parse([]byte(d.read("join-worker-7.ign")))
	if err != nil {
		t.Fatal(err)
	}
	s, err := d.Made()
	if err != nil {
		t.Fatal(err)
	}
	token := strings.TrimPrefix(*cfg.Ignition.Config.Merge[0].HTTPHeaders[0].Value, "Bearer ")
	if claims, err := jointoken.Read(s.Identity.JoinKey, token, jointoken.Config, d.now); err != nil || claims.Host != "worker-7" {
		t.Errorf("%+v, %v", claims, err)
	}
}

// TestAHostJoinsWithTheWayOutOfToday: a file that the pool's configuration has too takes
// the place of that of the installation, and stands there once.
func TestAHostJoinsWithTheWayOutOfToday(t *testing.T) {
	s := sitetest.New(t, withSecrets)
	for _, c := range []struct {
		files []state.File
		want  string
	}{
		{nil, string(site.ProxyFile(s.Config).Data)},
		{[]state.File{{Path: state.ProxyPath, Data: []byte("# This site has no proxy.\n"), Mode: state.SecretFileMode}}, "# This site has no proxy.\n"},
	} {
		data, err := installer.JoinIgnition(s, state.RoleWorker, installer.First{Files: c.files}, ignition.Newest)
		if err != nil {
			t.Fatal(err)
		}
		if got := ignitionFiles(t, string(data))[state.ProxyPath]; got.data != c.want || strings.Count(string(data), state.ProxyPath+`"`) != 1 {
			t.Errorf("%q", got.data)
		}
	}
}

// TestAHostJoinsWithTheKeysOfToday: those of its pool take the place of those of the installation.
func TestAHostJoinsWithTheKeysOfToday(t *testing.T) {
	s := sitetest.New(t, withSecrets)
	s.Config.SSHKey = "ssh-ed25519 OLD"
	for _, c := range []struct{ keys, want []string }{{nil, []string{"ssh-ed25519 OLD"}}, {[]string{"ssh-ed25519 NEW"}, []string{"ssh-ed25519 NEW"}}} {
		data, err := installer.JoinIgnition(s, state.RoleWorker, installer.First{Keys: c.keys}, ignition.Newest)
		if err != nil {
			t.Fatal(err)
		}
		var cfg types.Config
		if err := json.Unmarshal(data, &cfg); err != nil {
			t.Fatal(err)
		}
		if len(cfg.Passwd.Users) != 1 || !reflect.DeepEqual(cfg.Passwd.Users[0].SSHAuthorizedKeys, []types.SSHAuthorizedKey{types.SSHAuthorizedKey(c.want[0])}) {
			t.Errorf("%+v", cfg.Passwd.Users)
		}
	}
}
