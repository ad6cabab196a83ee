package lab

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/model/state"
)

func TestPacketRulesSitOnTheSwitchPortOfTheHost(t *testing.T) {
	l := NewLayout(Spec{Name: "site", ControlPlanes: 2}.WithDefaults())
	got := packetRules(l, []Fault{
		{Kind: FaultDrop, Host: "cp-1", NIC: OnMachine, Direction: DirectionIn},
		{Kind: FaultPowerCut, Host: "cp-2"},
		{Kind: FaultLoss, Host: "cp-2", NIC: OnFencing, Percent: 30},
		{Kind: FaultDelay, Host: "cp-2", NIC: OnMachine, Delay: time.Second},
		{Kind: FaultDrop, Host: "cp-2", NIC: OnMachine, Direction: DirectionOut},
		{Kind: FaultPartition, Host: "cp-1", NIC: OnFencing},
	})
	want := `table netdev faults
delete table netdev faults
table netdev faults {
	chain f0_in {
		type filter hook egress device "m-cp-1" priority 0; policy accept;
		counter drop
	}
	chain f2_in {
		type filter hook egress device "f-cp-2" priority 0; policy accept;
		counter numgen random mod 100 < 30 drop
	}
	chain f2_out {
		type filter hook ingress device "f-cp-2" priority 0; policy accept;
		counter numgen random mod 100 < 30 drop
	}
	chain f4_out {
		type filter hook ingress device "dm-cp-2" priority 0; policy accept;
		counter drop
	}
	chain f5_in_1 {
		type filter hook egress device "f-cp-2" priority 0; policy accept;
		counter ether saddr ` + l.Hosts[0].Fencing.MAC + ` drop
	}
	chain f5_in {
		type filter hook egress device "f-cp-1" priority 0; policy accept;
		counter ether saddr { ` + l.Hosts[1].Fencing.MAC + ` } drop
	}
}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAFilteredPortIsFilteredOnBothNetworksAndABlockedOneBothWays(t *testing.T) {
	l := NewLayout(Spec{Name: "site", ControlPlanes: 2}.WithDefaults())
	got := packetRules(l, []Fault{
		{Kind: FaultFilterPort, Host: "cp-1", Port: 2380, Protocol: "tcp", Direction: DirectionIn},
		{Kind: FaultFilterPort, Host: "cp-2", Port: 5405, Direction: DirectionBoth},
		{Kind: FaultNoForward, Host: "cp-2", NIC: OnMachine},
	})
	chain := func(name, hook, device, rule string) string {
		return "\tchain " + name + " {\n\t\ttype filter hook " + hook + " device \"" + device + "\" priority 0; policy accept;\n\t\tcounter " + rule + "\n\t}\n"
	}
	tcp, all := "meta l4proto tcp th dport 2380 drop", "meta l4proto { tcp, udp } th dport 5405 drop"
	want := "table netdev faults\ndelete table netdev faults\ntable netdev faults {\n" +
		chain("f0_in_0", "egress", "m-cp-1", tcp) + chain("f0_in_1", "egress", "f-cp-1", tcp) +
		chain("f1_in_0", "egress", "m-cp-2", all) + chain("f1_in_1", "egress", "f-cp-2", all) +
		chain("f1_out_0", "ingress", "m-cp-2", all) + chain("f1_out_1", "ingress", "f-cp-2", all) +
		chain("f2_in", "egress", "m-cp-2", "drop") + chain("f2_out", "ingress", "m-cp-2", "drop") + "}\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestADiskThatHangsIsMendedBeforeWhatLiesOnIt(t *testing.T) {
	full, hang, cut := Fault{Kind: FaultDiskFull}, Fault{Kind: FaultHangDisk}, Fault{Kind: FaultPowerCut}
	if got := undoFirst([]Fault{full, hang, cut}); !slices.Equal(got, []Fault{hang, full, cut}) {
		t.Errorf("undone in the order %v", got)
	}
}

func TestAScriptIsKnownByItsOwnName(t *testing.T) {
	for line, want := range map[string]string{
		"/usr/sbin/corosync -f":                 "corosync",
		"/usr/bin/python3 -Es /usr/sbin/pcsd":   "pcsd",
		"python3.11 /usr/sbin/pcsd":             "pcsd",
		"python3":                               "python3",
		"/usr/lib/pacemaker/pacemaker-controld": "pacemaker-controld",
		"":                                      ".",
	} {
		if got := programName(strings.Split(line, " ")); got != want {
			t.Errorf("%q is %q, want %q", line, got, want)
		}
	}
}

func TestADaemonIsToldFromItsMonitorByItsFirstArguments(t *testing.T) {
	daemon, monitor := []string{"/ocf/podman-etcd", "serve", "-v"}, []string{"/ocf/podman-etcd", "monitor"}
	if !fits(daemon, "podman-etcd serve") || fits(monitor, "podman-etcd serve") || !fits(monitor, "podman-etcd") || fits(daemon, "podman-etcd ser") {
		t.Error("the daemon and its monitor are taken for each other")
	}
}

func TestTheHostImageTakesTheMachinesOwnDebianSourcesAlone(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		full := filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(full), 0o755), os.WriteFile(full, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write("etc/os-release", "ID=debian\nVERSION_CODENAME=bookworm\n")
	write("etc/apt/sources.list", "# deb mirror:/a bookworm main\ndeb mirror:/old bullseye main\n")
	write("etc/apt/sources.list.d/debian.sources", "Types: deb\nURIs: mirror:/debian\nSuites: bookworm bookworm-updates\n")
	write("etc/apt/sources.list.d/node.sources", "Types: deb\nURIs: mirror:/node\nSuites: nodistro\n")
	write("etc/apt/sources.list.d/cloud.list", "deb [signed-by=/k] mirror:/cloud cloud-sdk-bookworm main\n")
	write("etc/apt/sources.list.d/off.sources.disabled", "Suites: bookworm\n")
	img, err := HostImage(root, []string{"runc", "systemd"})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{filepath.Join(root, "etc/apt/sources.list.d/debian.sources")}; !slices.Equal(img.Sources, want) {
		t.Errorf("sources %v, want %v", img.Sources, want)
	}
	if !slices.Contains(img.Packages, "runc") || !slices.IsSorted(img.Packages) || len(slices.Compact(slices.Clone(img.Packages))) != len(img.Packages) {
		t.Errorf("packages %v", img.Packages)
	}
	other, err := HostImage(root, []string{"runc", "podman"})
	if err != nil || other.Tag() == img.Tag() {
		t.Errorf("two package lists have one tag (%v)", err)
	}
	again, err := HostImage(root, []string{"systemd", "runc"})
	if err != nil || again.Tag() != img.Tag() {
		t.Errorf("the tag depends on the order of packages (%v)", err)
	}
}

func TestOnOtherDistributionsTheLabSaysWhatItNeeds(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "etc/os-release")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte("ID=fedora\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := HostImage(root, nil); err == nil || !strings.Contains(err.Error(), `this machine is "fedora": run the lab on Debian`) {
		t.Errorf("got %v", err)
	}
}

func TestAProcessIsKnownByItsStartTimeToo(t *testing.T) {
	me, err := self()
	if err != nil || !me.running() {
		t.Fatalf("this process is not running: %+v (%v)", me, err)
	}
	other := me
	other.Start = "1"
	if other.running() {
		t.Error("a process of another start time passes for this one")
	}
	cmd := exec.Command("true")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	child, err := identify(cmd.Process.Pid)
	if waitErr := cmd.Wait(); errors.Join(err, waitErr) != nil || child.running() {
		t.Errorf("a process that has ended is running: %+v (%v)", child, errors.Join(err, waitErr))
	}
}

func TestOnlyOneHoldsALock(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "file")} {
		release, err := lock(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := lock(path); !errors.Is(err, errLocked) {
			t.Errorf("second lock of %s: %v", path, err)
		}
		release()
		release, err = lock(path)
		if err != nil {
			t.Errorf("lock after release: %v", err)
			continue
		}
		release()
	}
}

func TestACommandWaitsForThePodmanThatAnotherLeftBehind(t *testing.T) {
	const name = "left-behind"
	in, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	podman := &exec.Cmd{Path: "/bin/sh", Args: []string{"podman", "-c", "read line", "rm", "--filter", "label=" + labelOf(name)}, Stdin: in}
	if err := podman.Start(); err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := waitForLeftBehind(impatient, name); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("while a podman removes the lab's hosts: %v", err)
	}
	if err := waitForLeftBehind(t.Context(), "left"); err != nil {
		t.Errorf("another lab's podman: %v", err)
	}
	if err := errors.Join(out.Close(), waitForLeftBehind(t.Context(), name)); err != nil {
		t.Errorf("once it has ended: %v", err)
	}
	_ = podman.Wait() // fails, because read gets no line
}

func TestTheKubeconfigLeadsThroughTheDoorAndStillVerifiesTheServer(t *testing.T) {
	site := `apiVersion: v1
kind: Config
clusters:
- name: site
  cluster: {server: "https://api.site.holdfast.test:6443", certificate-authority-data: QUJD}
contexts:
- name: admin
  context: {cluster: site, user: admin}
current-context: admin
users:
- name: admin
  user: {token: secret}
`
	out, err := redirect([]byte(site), "127.0.0.1:40000", "api.site.holdfast.test")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"server: https://127.0.0.1:40000", "tls-server-name: api.site.holdfast.test", "certificate-authority-data: QUJD", "current-context: admin", "token: secret"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if strings.Contains(string(out), "insecure") {
		t.Errorf("verification is off:\n%s", out)
	}
}

func TestWhatAHostIsDoingIsToldInAFewWords(t *testing.T) {
	on := HostStatus{Power: PowerOn}
	step := func(name, message string) []state.Step {
		return []state.Step{{Name: "load images", State: state.StepDone}, {Name: name, State: state.StepRunning, Message: message}}
	}
	tests := []struct {
		host HostProgress
		want string
	}{
		{HostProgress{HostStatus: HostStatus{Power: PowerOff, BMC: "off"}}, "is off (BMC: off)"},
		{HostProgress{HostStatus: HostStatus{Power: PowerPOST}}, "is in its power-on self-test"},
		{HostProgress{HostStatus: on}, "boots"},
		{HostProgress{HostStatus: on, Trouble: "no such file"}, "first boot: no such file"},
		{HostProgress{HostStatus: on, Install: state.Progress{Steps: step("join", "")}}, "join"},
		{HostProgress{HostStatus: on, Install: state.Progress{Steps: step("join", "no answer yet")}}, "join: no answer yet"},
		{HostProgress{HostStatus: on, Install: state.Progress{Steps: step("join", ""), Error: "refused"}}, "tries join again: refused"},
		{HostProgress{HostStatus: on, Install: state.Progress{Steps: step("join", ""), Complete: true}}, "is ready"},
	}
	for _, tt := range tests {
		if got := tt.host.Doing(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestTheLikelyReasonIsTheFirstHostThatFails(t *testing.T) {
	waits := HostProgress{HostStatus: HostStatus{Name: "cp-2", Power: PowerOn}, Install: state.Progress{Steps: []state.Step{{Name: "wait for API"}}}}
	fails := HostProgress{HostStatus: HostStatus{Name: "cp-1", Power: PowerOn}, Install: state.Progress{Steps: []state.Step{{Name: "init"}}, Error: "port 6443 is taken"}}
	ready := HostProgress{HostStatus: HostStatus{Name: "cp-1", Power: PowerOn}, Install: state.Progress{Complete: true}}
	lost := HostProgress{HostStatus: HostStatus{Name: "cp-3", Power: PowerOn}, Trouble: "no route to host"}
	off := HostProgress{HostStatus: HostStatus{Name: "cp-3", Power: PowerOff, BMC: "off"}}
	tests := []struct {
		hosts []HostProgress
		want  string
	}{
		{[]HostProgress{waits, lost}, "cp-3 first boot: no route to host"},
		{[]HostProgress{waits, off}, "cp-3 is off (BMC: off)"},
		{[]HostProgress{lost, fails}, "cp-1 fails at init: port 6443 is taken"},
		{[]HostProgress{waits, fails}, "cp-1 fails at init: port 6443 is taken"},
		{[]HostProgress{ready, waits}, "cp-2 wait for API"},
		{[]HostProgress{ready}, "all hosts report that they are ready"},
	}
	for _, tt := range tests {
		if got := likelyReason(tt.hosts); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestAFaultIsWrittenAsTheCommandThatMakesIt(t *testing.T) {
	tests := map[string]Fault{
		"drop cp-1 --nic machine --direction in":   {Kind: FaultDrop, Host: "cp-1", NIC: OnMachine, Direction: DirectionIn},
		"loss cp-1 --nic fencing --percent 30":     {Kind: FaultLoss, Host: "cp-1", NIC: OnFencing, Percent: 30},
		"delay cp-1 --nic machine --delay 50ms":    {Kind: FaultDelay, Host: "cp-1", NIC: OnMachine, Delay: 50 * time.Millisecond},
		"process-kill cp-1 --process etcd":         {Kind: FaultProcessKill, Host: "cp-1", Process: "etcd"},
		"filter-port cp-1 2380/tcp --direction in": {Kind: FaultFilterPort, Host: "cp-1", Port: 2380, Protocol: "tcp", Direction: DirectionIn},
		"filter-port cp-1 5405 --direction both":   {Kind: FaultFilterPort, Host: "cp-1", Port: 5405, Direction: DirectionBoth},
		"hang-disk cp-1":                           {Kind: FaultHangDisk, Host: "cp-1"},
		"bmc cp-2 says=On":                         {Kind: FaultBMC, Host: "cp-2", Quirk: "says", Value: "On"},
		"bmc cp-2 mute":                            {Kind: FaultBMC, Host: "cp-2", Quirk: "mute"},
	}
	for want, fault := range tests {
		if got := fault.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestASpareWorkerThatIsOffIsNotWaitedFor(t *testing.T) {
	l := NewLayout(Spec{Name: "x", ControlPlanes: 1, Workers: 1, SpareWorkers: 1}.WithDefaults())
	b := &Lab{Layout: l}
	if got := len(l.Hosts); got != 3 || l.Hosts[1].Spare || !l.Hosts[2].Spare {
		t.Fatalf("the hosts are %+v", l.Hosts)
	}
	hosts := func(last Power) []HostProgress {
		return []HostProgress{
			{HostStatus: HostStatus{Name: "cp-1", Power: PowerOn}},
			{HostStatus: HostStatus{Name: "worker-1", Power: PowerOff}},
			{HostStatus: HostStatus{Name: "worker-2", Power: last}},
		}
	}
	if got := b.awaited(hosts(PowerOff)); len(got) != 2 || got[1].Name != "worker-1" {
		t.Errorf("waited for %+v", got)
	}
	if got := b.awaited(hosts(PowerOn)); len(got) != 3 {
		t.Errorf("one that was switched on is not waited for: %+v", got)
	}
	if config, err := l.InstallConfig(); err != nil || !strings.Contains(string(config), "name: worker\n  replicas: 1\n") {
		t.Errorf("the site was installed with the spare ones (%v):\n%s", err, config)
	}
	if err := (Spec{Name: "x", ControlPlanes: 1, Workers: 15, SpareWorkers: 6}).WithDefaults().Validate(); err == nil {
		t.Error("more workers than there are addresses were accepted")
	}
}
