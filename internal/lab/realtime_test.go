package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestTheCPUGroupIsThatOfTheCPUController(t *testing.T) {
	for groups, want := range map[string]string{
		"9:name=systemd:/a\n2:cpuacct:/b\n1:cpu:/libpod/c\n0::/\n": "/libpod/c",
		"4:cpu,cpuacct:/d\n":                  "/d",
		"0::/user.slice/e\n":                  "",
		"3:cpuset:/f\n2:cpuacct:/b\n0::/\n\n": "",
	} {
		if got := cpuGroup(groups); got != want {
			t.Errorf("%q: got %q, want %q", groups, got, want)
		}
	}
}

func TestTheBudgetIsThatOfTheContainerNotOfItsInit(t *testing.T) {
	for group, want := range map[string][2]string{
		"/libpod_parent/libpod-1a/init.scope": {"/libpod_parent", "/libpod_parent/libpod-1a"},
		"/libpod_parent/libpod-1a":            {"/libpod_parent", "/libpod_parent/libpod-1a"},
		"/user.slice":                         {"", ""},
		"":                                    {"", ""},
	} {
		if all, own := containerGroup(group); all != want[0] || own != want[1] {
			t.Errorf("%q: got %q and %q, want %q", group, all, own, want)
		}
	}
}

func TestABudgetIsRaisedAndNeverLowered(t *testing.T) {
	file := filepath.Join(t.TempDir(), "budget")
	if err := grantBudget(file, 5); err != nil {
		t.Errorf("a kernel without budgets: %v", err)
	}
	for _, c := range []struct{ has, want string }{{"0\n", "50"}, {"100\n", "100\n"}, {"-1\n", "-1\n"}} {
		if err := os.WriteFile(file, []byte(c.has), 0o600); err != nil {
			t.Fatal(err)
		}
		err := grantBudget(file, 50)
		if got, readErr := os.ReadFile(file); err != nil || readErr != nil || string(got) != c.want {
			t.Errorf("from %q: %q, want %q (%v, %v)", c.has, got, c.want, err, readErr)
		}
	}
}

// It needs root and cgroup v1, as the machines have on which clusters are played.
func TestAHostThatBootsHasASmallWeight(t *testing.T) {
	if err := weigh(1<<30, sharesOfBooting); err != nil {
		t.Errorf("a host that has ended: %v", err)
	}
	if _, err := os.Stat(filepath.Join(cpuHierarchy, "cpu.shares")); err != nil || os.Geteuid() != 0 {
		if err := weigh(os.Getpid(), sharesOfBooting); err != nil && os.Geteuid() == 0 {
			t.Errorf("a machine without cgroup v1: %v", err)
		}
		return
	}
	host := exec.Command("sleep", "60")
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	parent := filepath.Join(cpuHierarchy, fmt.Sprintf("holdfast-test-%d", os.Getpid()))
	own := filepath.Join(parent, "libpod-test")
	defer func() {
		_ = host.Process.Kill()
		_ = host.Wait()
		if err := errors.Join(os.Remove(own), os.Remove(parent)); err != nil {
			t.Error(err)
		}
	}()
	for _, err := range []error{os.Mkdir(parent, 0o755), os.Mkdir(own, 0o755), os.WriteFile(filepath.Join(own, "cgroup.procs"), []byte(strconv.Itoa(host.Process.Pid)), 0)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{sharesOfBooting, sharesOfHost} {
		if err := weigh(host.Process.Pid, want); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(own, "cpu.shares"))
		if got := strings.TrimSpace(string(text)); err != nil || got != strconv.Itoa(want) {
			t.Errorf("its weight is %s, want %d (%v)", got, want, err)
		}
	}
}

// It needs root and cgroup v1, as the machines have on which clusters are played.
func TestAClientIsPreferredToAllHosts(t *testing.T) {
	if _, err := os.Stat(filepath.Join(cpuHierarchy, "cpu.shares")); err != nil || os.Geteuid() != 0 {
		if err := PreferClient(os.Getpid()); err != nil && os.Geteuid() == 0 {
			t.Errorf("a machine without cgroup v1: %v", err)
		}
		return
	}
	client := exec.Command("sleep", "60")
	if err := client.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Process.Kill(); _ = client.Wait() }()
	if err := PreferClient(client.Process.Pid); err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", client.Process.Pid))
	if got := cpuGroup(string(groups)); err != nil || got != "/"+clientsGroup {
		t.Errorf("it is in group %q, want /%s (%v)", got, clientsGroup, err)
	}
	shares, err := os.ReadFile(filepath.Join(cpuHierarchy, clientsGroup, "cpu.shares"))
	if n, _ := strconv.Atoi(strings.TrimSpace(string(shares))); err != nil || n <= sharesOfAll {
		t.Errorf("its group has %q shares, all hosts have %d (%v)", shares, sharesOfAll, err)
	}
}
