package site_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/jointoken"
	"github.com/holdfast/holdfast/internal/site"
	"github.com/holdfast/holdfast/internal/sitetest"
	"github.com/holdfast/holdfast/internal/state"
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
		own, err := s.For(role)
		if err != nil {
			t.Fatal(err)
		}
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

func TestAControlPlaneKnowsTheFencingPasswords(t *testing.T) {
	data := marshal(t, state.RoleMaster)
	if !strings.Contains(data, "hush-1") || !strings.Contains(data, "hush-2") {
		t.Error("a password is missing from the control plane's copy")
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
		own, err := whole.For(role)
		if err != nil {
			t.Fatal(err)
		}
		own.Config.ControlPlane.Fencing = nil // as where a host's copy holds no account
		if len(own.BMCs) != 2 || !slices.Equal(own.BMCHosts(), own.BMCs) {
			t.Errorf("%s: %v, and of it %v", role, own.BMCs, own.BMCHosts())
		}
		whole = sitetest.New(t, sitetest.TwoDual)
	}
}

func marshal(t *testing.T, role state.Role) string {
	t.Helper()
	own, err := sitetest.New(t, sitetest.TwoDual).For(role)
	if err != nil {
		t.Fatal(err)
	}
	data, err := own.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestTheJoinTokenOpensOneRoleForOneDay(t *testing.T) {
	s := sitetest.New(t, sitetest.TwoDual)
	token, err := s.JoinToken(state.RoleWorker)
	if err != nil {
		t.Fatal(err)
	}
	verify := func(role state.Role, hours float64) error {
		at := sitetest.Created.Add(time.Duration(hours * float64(time.Hour)))
		return jointoken.Verify(s.Identity.JoinKey, token, role, at)
	}
	if err := verify(state.RoleWorker, 23.9); err != nil {
		t.Errorf("before the day is over: %v", err)
	}
	if err := verify(state.RoleWorker, 24.1); err == nil {
		t.Error("accepted after the day")
	}
	if err := verify(state.RoleMaster, 1); err == nil {
		t.Error("a worker's token opened a control plane's configuration")
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
