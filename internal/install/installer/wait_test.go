package installer_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast/holdfast/internal/decide/installation"
	"github.com/holdfast/holdfast/internal/install/installer"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

// scene is a site whose answers the test sets.
type scene struct {
	hosts    []state.Progress
	hostsErr error
	marks    map[string]string
	looks    int
}

func (s *scene) waiter() *installer.Waiter {
	return &installer.Waiter{
		Hosts: func(context.Context) ([]state.Progress, error) { s.looks++; return s.hosts, s.hostsErr },
		Marks: func(context.Context) (map[string]string, error) {
			if s.marks == nil {
				return nil, errors.New("no API")
			}
			return s.marks, nil
		},
		Show: func([]state.Progress, time.Duration) {}, Now: time.Now,
	}
}

func host(name string, role state.Role, complete bool) state.Progress {
	return state.Progress{Host: name, Role: role, Complete: complete, Steps: []state.Step{{Name: "join", State: state.StepRunning}}}
}

func TestAWaitEndsWhenTheHostsAreComplete(t *testing.T) {
	site := sitetest.New(t, sitetest.TwoDual)
	synctest.Test(t, func(t *testing.T) {
		s := &scene{hostsErr: errors.New("refused")}
		time.AfterFunc(10*time.Second, func() {
			s.hostsErr, s.hosts = nil, []state.Progress{host("cp-1", state.RoleBootstrap, true), host("cp-2", state.RoleMaster, false)}
		})
		time.AfterFunc(20*time.Second, func() { s.hosts = []state.Progress{host("cp-2", state.RoleMaster, true)} })
		o, err := s.waiter().Wait(t.Context(), installation.InstallComplete, site, time.Minute)
		if err != nil || !o.Complete || len(o.Hosts) != 2 || o.Seconds < 20 || o.Seconds > 22 {
			t.Errorf("%+v, %v", o, err)
		}
		if o.Unreachable != "" || o.Open != nil {
			t.Errorf("a complete site has problems: %+v", o)
		}
	})
}

func TestAWaitBelievesTheClusterWhereReportsAreLost(t *testing.T) {
	site := sitetest.New(t, sitetest.TwoDual)
	synctest.Test(t, func(t *testing.T) {
		s := &scene{hostsErr: errors.New("refused"), marks: map[string]string{"status": "complete"}}
		o, err := s.waiter().Wait(t.Context(), installation.BootstrapComplete, site, time.Minute)
		if err != nil || !o.Complete || o.Hosts == nil {
			t.Errorf("%+v, %v", o, err)
		}
	})
}

func TestATimeoutTellsTheHostsReasons(t *testing.T) {
	site := sitetest.New(t, sitetest.TwoDual)
	for name, c := range map[string]struct {
		scene  scene
		reason string
	}{
		"a host that fails": {
			scene{hosts: []state.Progress{{Host: "cp-1", Role: state.RoleBootstrap, Error: "no release", Steps: []state.Step{{Name: "open release"}}}}},
			"cp-1 tries open release again: no release; 1 control plane has not reported yet",
		},
		"nobody answers": {
			scene{hostsErr: errors.New("connection refused")},
			"no reports from the configuration server: connection refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				o, err := c.scene.waiter().Wait(t.Context(), installation.InstallComplete, site, 1500*time.Millisecond)
				if !errors.Is(err, installer.ErrTimeout) || o.Complete || time.Since(start) != 1500*time.Millisecond {
					t.Errorf("after %s: %+v, %v", time.Since(start), o, err)
				}
				if o.Reason() != c.reason {
					t.Errorf("reason %q", o.Reason())
				}
			})
		})
	}
}

func TestATimeoutOfZeroLooksOnce(t *testing.T) {
	site := sitetest.New(t, sitetest.OneNone)
	s := &scene{hosts: []state.Progress{host("cp-1", state.RoleBootstrap, false)}}
	o, err := s.waiter().Wait(t.Context(), installation.InstallComplete, site, 0)
	if !errors.Is(err, installer.ErrTimeout) || s.looks != 1 || len(o.Hosts) != 1 {
		t.Errorf("%d looks: %+v, %v", s.looks, o, err)
	}
}

func TestAnInterruptedWaitSaysSo(t *testing.T) {
	site := sitetest.New(t, sitetest.OneNone)
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(5*time.Second, func() { cancel(errors.New("ctrl-c")) })
		_, err := (&scene{}).waiter().Wait(ctx, installation.InstallComplete, site, time.Hour)
		if err == nil || err.Error() != "ctrl-c" {
			t.Errorf("got %v", err)
		}
	})
}

func TestWhereTheConfigurationServerIsAskedFor(t *testing.T) {
	for config, want := range map[string][]string{
		sitetest.TwoDual: {"10.98.0.5:22623", "[fd98::5]:22623"},
		sitetest.OneNone: {"10.98.0.11:22623", "api-int.shop.example.test:22623"},
	} {
		if got := installer.ConfigServers(sitetest.New(t, config)); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	}
}

func TestADirectoryWithoutFilesHasNothingToWaitFor(t *testing.T) {
	d := newDirectory(t, sitetest.TwoDual)
	_, err := d.Made()
	wantInputError(t, err, "nothing was made in "+d.Dir+" yet: run 'holdfast create ignition-configs --dir "+d.Dir+"' first")
	if len(d.files()) != 1 {
		t.Error("asking made files")
	}
	d.must(d.IgnitionConfigs)
	d.write(installer.ConfigFile, "not: valid")
	if s, err := d.Made(); err != nil || s.Domain() != "shop.example.test" {
		t.Errorf("%v", err)
	}
}
