package bmc

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/host"
)

// The fence agent as Debian installs it, and the interpreter that has its
// modules.
const (
	fenceAgent = "/usr/sbin/fence_redfish"
	python     = "/usr/bin/python3"
)

// needFenceAgent skips a test without the agent, and fails it where the agent
// is required.
func needFenceAgent(t *testing.T) {
	t.Helper()
	for _, path := range []string{fenceAgent, python} {
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if os.Geteuid() == 0 && os.Getenv("HOLDFAST_REQUIRE_TOOLS") == "1" {
			t.Fatalf("%s is missing: install the packages fence-agents and python3", path)
		}
		t.Skipf("NOT TESTED: that an unmodified fence_redfish drives the simulator, since %s is missing; install the packages fence-agents and python3", path)
	}
}

// fence runs the agent as Pacemaker does: all options, including the password,
// go to standard input.
func fence(t *testing.T, addr, action string, more ...string) (output string, exit int) {
	t.Helper()
	ip, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	options := append([]string{
		"action=" + action, "ip=" + ip, "ipport=" + port, "username=" + testUser, "password=" + testPassword,
		"ssl_insecure=1", "power_timeout=2", "stonith_status_sleep=1",
	}, more...)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var said strings.Builder
	_, err = host.Run(ctx, host.Cmd{
		Name: python, Args: []string{fenceAgent},
		Stdin: strings.NewReader(strings.Join(options, "\n") + "\n"), Stdout: &said, Stderr: &said,
	})
	if err != nil {
		exit = host.ExitCode(err)
	}
	return said.String(), exit
}

// Exit codes of fence agents.
const (
	fenceOK        = 0
	fenceFailed    = 1
	fenceStatusOff = 2
)

func TestFenceRedfishDrivesTheSimulator(t *testing.T) {
	needFenceAgent(t)
	m := &fakeMachine{}
	s := newServer(t, m)
	s.SetPOSTDelay(0)
	addr := serve(t, s)
	steps := []struct {
		action string
		exit   int
		says   string
		on     bool
	}{
		{"monitor", fenceOK, "", false},
		{"status", fenceStatusOff, "OFF", false},
		{"off", fenceOK, "Already OFF", false},
		{"on", fenceOK, "Powered ON", true},
		{"status", fenceOK, "ON", true},
		{"monitor", fenceOK, "", true},
		{"reboot", fenceOK, "Rebooted", true},
		{"off", fenceOK, "Powered OFF", false},
		{"reboot", fenceOK, "Rebooted", true},
	}
	for i, step := range steps {
		out, exit := fence(t, addr, step.action, "systems_uri="+s.SystemPath())
		if exit != step.exit || !strings.Contains(out, step.says) {
			t.Fatalf("step %d, %s: exit %d, want %d saying %q:\n%s", i, step.action, exit, step.exit, step.says, out)
		}
		eventually(t, func() bool { return m.isOn() == step.on })
	}
	want := "[on off on off on]"
	if got := fmt.Sprint(m.called()); got != want {
		t.Errorf("the machine went through %s, want %s", got, want)
	}
}

func TestFenceRedfishMeetsTheQuirks(t *testing.T) {
	needFenceAgent(t)
	ours := "systems_uri=" + systemsPath + "/1"
	cases := []struct {
		name   string
		quirks Quirks
		on     bool
		action string
		option string
		exit   int
		alive  bool
	}{
		{"an off machine that answers 409 is off", Quirks{ConflictWhenOff: true}, false, "off", ours, fenceOK, false},
		{"an ignored power-off fails", Quirks{AcceptAndIgnore: true}, true, "off", ours, fenceFailed, true},
		{"PoweringOff that sticks is not off", Quirks{PoweringOffSticks: true}, true, "off", ours, fenceFailed, true},
		{"a slow power-off is waited for", Quirks{SlowOff: Duration(time.Second)}, true, "off", ours, fenceOK, false},
		{"an error that acts is found out by looking", Quirks{ErrorYetActs: true}, true, "off", ours, fenceOK, false},
		{"a refused password fails", Quirks{AuthStatus: 401}, true, "off", ours, fenceFailed, true},
		{"reset types only in ActionInfo do not matter", Quirks{ActionInfoOnly: true}, true, "off", ours, fenceOK, false},
		{"our system by its path among several", Quirks{ExtraSystems: 2}, true, "off", ours, fenceOK, false},
		// A path in systems_uri avoids this hazard: fencing is reported as
		// done, but it hit another machine.
		{"without a path the last system is taken, which is not ours", Quirks{ExtraSystems: 2}, true, "off", "", fenceOK, true},
		{"without a path the only system is taken", Quirks{}, true, "off", "", fenceOK, false},
		{"a lie is believed", Quirks{Says: "Off"}, true, "off", ours, fenceOK, true},
		{"no power state is an error", Quirks{Says: SaysNothing}, true, "status", ours, fenceFailed, true},
		{"an answer cut short is an error", Quirks{CutAnswer: true}, true, "status", ours, fenceFailed, true},
		{"refused connections are an error", Quirks{Unreachable: true}, true, "status", ours, fenceFailed, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			m := &fakeMachine{on: c.on}
			s := newServer(t, m)
			addr := serve(t, s)
			s.SetQuirks(c.quirks)
			out, exit := fence(t, addr, c.action, c.option)
			if exit != c.exit || m.isOn() != c.alive {
				t.Errorf("exit %d, want %d; machine on %v, want %v:\n%s", exit, c.exit, m.isOn(), c.alive, out)
			}
			if strings.Contains(out, testPassword) {
				t.Errorf("the password is printed:\n%s", out)
			}
		})
	}
}
