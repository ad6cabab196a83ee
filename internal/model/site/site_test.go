package site_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/jointoken"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestHostsReachTheAPIByVIPOrByName(t *testing.T) {
	for _, c := range []struct{ config, endpoint, configServer string }{
		{sitetest.OneNone, "api-int.shop.example.test:6443", "https://10.98.0.11:22623"},
		{sitetest.TwoDual, "10.98.0.5:6443", "https://10.98.0.5:22623"},
		{sitetest.ThreeV6, "[fd98::5]:6443", "https://[fd98::5]:22623"},
	} {
		s := sitetest.New(t, c.config)
		if got := s.APIEndpoint(); got != c.endpoint {
			t.Errorf("endpoint: got %s, want %s", got, c.endpoint)
		}
		if got := s.ConfigServerURL(); got != c.configServer {
			t.Errorf("configuration server: got %s, want %s", got, c.configServer)
		}
	}
}

func TestASiteSurvivesItsFile(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		own := s.For(role)
		data, err := own.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		back, err := site.Unmarshal(data)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(own, back); diff != "" {
			t.Errorf("%s: %s", role, diff)
		}
	}
}

// docs/attacks.md, F19: the cluster's objects bring the accounts.
func TestNoCopyHoldsTheAccountOfABMC(t *testing.T) {
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		data := marshal(t, role)
		if strings.Contains(data, "hush-") {
			t.Errorf("%s: a password of a BMC", role)
		}
		if named := strings.Contains(data, "hostName: cp-2"); named != role.ControlPlane() {
			t.Errorf("%s: the fenced hosts' names are there: %v", role, named)
		}
	}
}

func TestAHostThatIsInstalledKeepsNothingThatJoins(t *testing.T) {
	// The copy as earlier builds wrote it.
	s := withAccounts(t)
	s.Identity.AdmissionToken = "hush-admission"
	before := s.Config.ControlPlane.Fencing.Credentials[0].Password
	data, err := s.Settled().Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "hush-") {
		t.Errorf("it keeps a secret:\n%s", data)
	}
	if !strings.Contains(string(data), "joinKey") || !strings.Contains(string(data), "PRIVATE KEY") {
		t.Error("a control plane lost its keys")
	}
	if s.Identity.AdmissionToken == "" || s.Config.ControlPlane.Fencing.Credentials[0].Password != before {
		t.Error("the site that it was made from changed")
	}
	again, err := site.Unmarshal(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(again, again.Settled()); diff != "" {
		t.Errorf("settled twice: %s", diff)
	}
}

// withAccounts returns a site with an account in every place where that of a BMC
// may stand.
func withAccounts(t *testing.T) *site.Site {
	t.Helper()
	s := sitetest.New(t, sitetest.TwoDual)
	s.Config.Platform.BareMetal.Hosts = []config.Host{{Name: "cp-1", Role: "master", BMC: config.BMC{Username: "admin", Password: "hush-3"}}}
	return s
}

// docs/facts/findings.md#installer, D14: no host has to be the administrator.
func TestTheAdministratorsKeyStaysInTheInstallDirectory(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.Admin = site.KeyPair{Cert: "public", Key: "hush-admin"}
	copies := map[string]*site.Site{"settled": s.Settled()}
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		copies[string(role)] = s.For(role)
	}
	for name, own := range copies {
		data, err := own.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "hush-admin") || own.Identity.Admin != (site.KeyPair{}) {
			t.Errorf("%s: the administrator's key", name)
		}
	}
	if s.Identity.Admin.Key == "" {
		t.Error("the install directory lost it")
	}
}

func TestOnlyAWorkersCopyBringsAnAdmission(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	s.Identity.AdmissionToken = "admission"
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		if got := s.For(role).Identity.AdmissionToken; (got != "") != (role == state.RoleWorker) {
			t.Errorf("%s: %q", role, got)
		}
	}
}

func TestAWorkersCopyHoldsNoPrivateKeyAndNoPassword(t *testing.T) {
	data := marshal(t, state.RoleWorker)
	for _, secret := range []string{"PRIVATE KEY", "hush-", "progress-secret", "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"} {
		if strings.Contains(data, secret) {
			t.Errorf("the worker's copy holds %q", secret)
		}
	}
}

func TestEachHostKnowsWhereManagementControllersAre(t *testing.T) {
	whole := sitetest.New(t, sitetest.TwoDual)
	for _, role := range []state.Role{state.RoleBootstrap, state.RoleMaster, state.RoleWorker} {
		own := whole.For(role)
		own.Config.ControlPlane.Fencing = nil // as in a host's copy, which holds no account
		if len(own.BMCs) != 2 || !slices.Equal(own.BMCHosts(), own.BMCs) {
			t.Errorf("%s: %v, and of it %v", role, own.BMCs, own.BMCHosts())
		}
		whole = sitetest.New(t, sitetest.TwoDual)
	}
}

func marshal(t *testing.T, role state.Role) string {
	t.Helper()
	data, err := withAccounts(t).For(role).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheJoinTokenOpensOneRoleForOneDay(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	token, err := s.JoinToken(state.RoleWorker, "")
	if err != nil {
		t.Fatal(err)
	}
	read := func(hours float64) (jointoken.Claims, error) {
		at := sitetest.Created.Add(time.Duration(hours * float64(time.Hour)))
		return jointoken.Read(s.Identity.JoinKey, token, jointoken.Config, at)
	}
	claims, err := read(23.9)
	if err != nil || claims.Role != state.RoleWorker || claims.Host != "" || len(claims.ID) != 12 {
		t.Errorf("before the day is over: %+v, %v", claims, err)
	}
	if _, err := read(24.1); err == nil {
		t.Error("accepted after the day")
	}
	named, err := s.JoinToken(state.RoleWorker, "worker-1")
	if err != nil {
		t.Fatal(err)
	}
	other, err := jointoken.Read(s.Identity.JoinKey, named, jointoken.Config, sitetest.Created)
	if err != nil || other.Host != "worker-1" || other.ID == claims.ID {
		t.Errorf("of one host: %+v, %v", other, err)
	}
}

func TestDamagedFilesAreNotQuoted(t *testing.T) {
	for _, text := range []string{"", "{", `{"config":"password: hush"`, `{"config":"- [hush"}`, `{"config":"hush: 1"}`, `{"identity":{}}`} {
		_, err := site.Unmarshal([]byte(text))
		if err == nil || strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: %v", text, err)
		}
	}
}
