package lab

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/redfish"
)

func TestALabOnThisMachine(t *testing.T) {
	needLab(t)
	alone := otherLabs(t) == 0
	before, beforeAlone := trace(t, false), trace(t, true)
	t.Run("lab", func(t *testing.T) {
		r := startReal(t)
		for _, test := range []struct {
			name string
			run  func(*real)
		}{
			{"hosts reach each other on both networks and families", testReach},
			{"a command has its streams and its exit status", testExec},
			{"a BMC answers on the fencing network alone", testBMCReach},
			{"the root namespace cannot reach a host", testNoRouteOutside},
			{"names of the cluster resolve, others do not", testDNS},
			{"the door on the loopback address leads to the API address", testDoor},
			{"another lab lives beside it", testSecondLab},
			{"logs of the hosts are collected", testCollect},
			{"up again changes nothing", testUpAgain},
			{"another lab of the same name is refused", testOtherOptions},
			{"a lab of the same name below another directory is left alone", testOtherRoot},
			{"a host is silent once its power is cut", testPowerCut},
			{"what a host wrote survives a power cut, what it ran does not", testDiskSurvives},
			{"a host that powers itself off is off", testShutdown},
			{"a host that restarts itself comes back", testReboot},
			{"the BMC switches its host", testRedfish},
			{"without mains host and BMC are gone", testACLoss},
			{"a pulled cable is seen on both ends", testLinkDown},
			{"one direction is dropped, the other passes", testDrop},
			{"a port of the switch forwards nothing", testNoForward},
			{"a port is filtered, also after a boot", testFilterPort},
			{"hosts are cut from each other alone", testPartition},
			{"some packets are lost", testLoss},
			{"packets come late and whole", testDelay},
			{"a process is stopped, goes on, and is killed", testProcess},
			{"a disk is full for etcd alone", testDiskFull},
			{"what etcd keeps is damaged, and no more", testEtcdDamage},
			{"a disk is slow", testSlowDisk},
			{"a disk hangs, and its host can still lose its power", testHangDisk},
			{"a process is frozen by its control group", testFreezeCgroup},
			{"a quirk of the BMC is thrown", testQuirk},
			{"a killed daemon is replaced, with hosts and faults as they were", testDaemonKilled},
			{"hosts that are killed together with their daemon and podman's are off, and boot", testSessionKilled},
			{"a daemon that ends while a host boots leaves no host that cannot boot", testDaemonEndsInABoot},
		} {
			t.Run(test.name, func(t *testing.T) { test.run(r.in(t)) })
		}
		if err := os.WriteFile("/proc/sys/kernel/panic", []byte("10"), 0); err != nil { // as kubelet does
			t.Error(err)
		}
	})
	if alone = alone && otherLabs(t) == 0; alone {
		before = beforeAlone
	}
	if diff := cmp.Diff(strings.Split(before, "\n"), strings.Split(trace(t, alone), "\n")); diff != "" {
		t.Errorf("the lab left something behind:\n%s", diff)
	}
}

// in returns the lab for a subtest.
func (r *real) in(t *testing.T) *real {
	copied := *r
	copied.t = t
	return &copied
}

func testReach(r *real) {
	for _, to := range []string{"10.98.0.12", "fd98::12", "10.99.0.12", "fd99::12", "10.98.0.1", "fd98::1"} {
		r.works("cp-1", ping+to)
	}
}

func testExec(r *real) {
	h, _ := r.lab.Layout.Host("cp-1")
	var out bytes.Buffer
	err := r.lab.Exec(r.t.Context(), h, []string{"sh", "-c", "read word; echo got $word; exit 7"}, ExecStreams{In: strings.NewReader("this\n"), Out: &out, Err: &out})
	if code, ok := errors.AsType[*ExitError](err); !ok || code.Code != 7 || out.String() != "got this\n" {
		r.t.Errorf("%q, %v", out.String(), err)
	}
}

const redfishRoot = "curl --silent --insecure --fail --max-time 3 --output /dev/null "

func testBMCReach(r *real) {
	r.works("cp-1", redfishRoot+"https://10.99.0.112/redfish/v1/")
	r.works("cp-1", redfishRoot+"'https://[fd99::112]/redfish/v1/'")
	r.fails("cp-1", "ip route replace 10.99.0.112 via 10.98.0.1 dev eth0 && "+strings.Replace(redfishRoot, "3", "1", 1)+"https://10.99.0.112/redfish/v1/")
	r.works("cp-1", "ip route del 10.99.0.112")
}

func testNoRouteOutside(r *real) {
	if out, err := r.sh("cp-1", ping+"192.0.2.1"); err == nil {
		r.t.Errorf("a host reaches the machine's network: %s", out)
	}
}

func testDNS(r *real) {
	r.works("cp-1", "getent ahosts "+r.name("api")+" | grep -w 10.98.0.5")
	r.works("cp-1", "getent ahosts "+r.name("api")+" | grep -w fd98::5")
	r.works("cp-1", "getent ahostsv4 "+r.name("x.apps")+" | grep -w 10.98.0.6")
	r.fails("cp-1", "getent hosts "+r.name("api-int")+" || getent hosts example.org")
}

func testDoor(r *real) {
	r.works("cp-2", "ip addr add 10.98.0.5/32 dev eth0; systemd-run --quiet --collect --unit=api socat TCP-LISTEN:6443,fork SYSTEM:'read x; echo you said $x'")
	r.eventually("the API listens", func() bool { _, err := r.sh("cp-2", "ss -ltn | grep -q :6443"); return err == nil })
	s, err := r.lab.Status(r.t.Context(), r.client)
	if err != nil {
		r.t.Fatal(err)
	}
	if got := strings.Join(s.VIPs["10.98.0.5"], " "); got != "cp-2" {
		r.t.Errorf("status says that the VIP is held by %q", got)
	}
	conn, err := net.Dial("tcp", s.Daemon.API)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		r.t.Fatal(err)
	}
	said, err := io.ReadAll(conn)
	if string(said) != "you said hello\n" {
		r.t.Errorf("%q, %v", said, err)
	}
	r.works("cp-2", "systemctl stop api; ip addr del 10.98.0.5/32 dev eth0")
}

func testSecondLab(r *real) {
	name := realName + "x"
	defer func() {
		if err := Down(context.Background(), r.root, name); err != nil {
			r.t.Error(err)
		}
	}()
	b, c, err := r.builder().Up(r.t.Context(), Options{Spec: Spec{Name: name, ControlPlanes: 1, Bare: true}})
	if err != nil {
		r.t.Fatal(err)
	}
	other := &real{t: r.t, root: r.root, lab: b, client: c}
	other.booted("cp-1")
	other.works("cp-1", ping+"10.98.0.1")
	other.fails("cp-1", ping+"10.98.0.12")
	if names, err := List(r.root); err != nil || !slices.Equal(names, []string{realName, name}) {
		r.t.Errorf("labs: %v (%v)", names, err)
	}
}

func testCollect(r *real) {
	dir, reason, err := r.lab.Collect(r.t.Context(), r.client)
	if err != nil {
		r.t.Fatal(err)
	}
	journal, err := os.ReadFile(filepath.Join(dir, "cp-1", "journal.log"))
	if err != nil || !bytes.Contains(journal, []byte("Reached target")) {
		r.t.Errorf("journal of cp-1: %d bytes (%v)", len(journal), err)
	}
	if reason != "cp-1 boots" {
		r.t.Errorf("likely reason: %q", reason)
	}
}

func testUpAgain(r *real) {
	before := r.status("cp-1")
	r.up()
	if after := r.status("cp-1"); before.PID != after.PID {
		r.t.Errorf("host was restarted: %+v, before %+v", after, before)
	}
}

func testOtherRoot(r *real) {
	u := r.builder()
	u.Root = r.t.TempDir()
	_, _, err := u.Prepare(r.t.Context(), Options{Spec: realSpec()})
	if want := "its state is in " + r.lab.Dir; err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("got %v, want %q", err, want)
	}
	if err := Down(r.t.Context(), u.Root, realName); err == nil {
		r.t.Error("a lab was removed by way of another directory")
	}
	r.works("cp-1", "true")
}

func testOtherOptions(r *real) {
	_, _, err := r.builder().Prepare(r.t.Context(), Options{Spec: Spec{Name: realName, ControlPlanes: 1, Bare: true}})
	if err == nil || !strings.Contains(err.Error(), "lab down --name "+realName) {
		r.t.Errorf("got %v", err)
	}
}

func testPowerCut(r *real) {
	r.inject(Fault{Kind: FaultPowerCut, Host: "cp-2"})
	if _, err := r.inSwitch("ip neigh flush dev machine0; ping -c1 -W1 10.98.0.12"); err == nil {
		r.t.Error("a dead host answers")
	}
	if out, _ := r.inSwitch("ip neigh show nud all to 10.98.0.12"); strings.Contains(out, "lladdr") {
		r.t.Errorf("a dead host answers ARP: %s", out)
	}
	if st := r.status("cp-2"); st.Power != PowerOff || st.BMC != "off" || st.MachineLink {
		r.t.Errorf("status: %+v", st)
	}
	r.works("cp-1", redfishRoot+"https://10.99.0.112/redfish/v1/")
	r.clear()
	r.booted("cp-2")
	r.works("cp-1", ping+"10.98.0.12")
	r.works("cp-1", ping+"fd98::12")
}

func testDiskSurvives(r *real) {
	h, _ := r.lab.Layout.Host("cp-2")
	if _, err := host.Run(r.t.Context(), host.Command("mount", "-o", "remount,"+noTimer, r.lab.etcdDir(h))); err != nil { // until the boot mounts it anew
		r.t.Fatal(err)
	}
	r.works("cp-2", `ip link add cni0 type bridge; ip addr add 10.98.0.77/24 dev eth0; nft add table inet left; systemd-run --unit=left sleep 1000
		echo kept >/root/a; echo lost >/run/a; echo kept >/var/lib/etcd/a; sync -f /var/lib/etcd/a; echo lost >/var/lib/etcd/b`)
	r.power("cp-2", ActionReset)
	r.booted("cp-2")
	r.works("cp-2", "test -s /var/lib/etcd/a && ! test -e /var/lib/etcd/b && test -s /root/a && ! test -e /run/a")
	r.works("cp-2", "! ip link show cni0 && ! nft list table inet left && ! pgrep sleep && ! ip addr show eth0 | grep -w 10.98.0.77")
}

func testShutdown(r *real) {
	r.inject(Fault{Kind: FaultShutdown, Host: "cp-2"})
	r.eventually("cp-2 is off", func() bool { st := r.status("cp-2"); return st.Power == PowerOff && st.BMC == "off" })
	r.fails("cp-1", ping+"10.98.0.12")
	r.clear()
	r.booted("cp-2")
}

func testReboot(r *real) {
	before := r.status("cp-2")
	_, _ = r.sh("cp-2", "systemctl reboot")
	r.eventually("cp-2 restarts", func() bool { st := r.status("cp-2"); return st.Power == PowerOn && st.PID != before.PID })
	r.booted("cp-2")
	r.works("cp-1", ping+"10.98.0.12")
}

func testRedfish(r *real) {
	h, _ := r.lab.Layout.Host("cp-2")
	if err := r.lab.Reset(r.t.Context(), h, redfish.ResetForceOff); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("cp-2 is off", func() bool { return r.status("cp-2").Power == PowerOff })
	if err := r.lab.PowerOn(r.t.Context(), h); err != nil {
		r.t.Fatal(err)
	}
	r.booted("cp-2")
	// The identity of the machine is the same to its BMC and to itself.
	out, err := r.sh("cp-2", ". /etc/default/holdfast-agent; cat $HOLDFAST_DMI_DIR/product_uuid")
	if err != nil || out != h.UUID {
		r.t.Errorf("the host says %q (%v), want %s", out, err, h.UUID)
	}
}

func testACLoss(r *real) {
	r.inject(Fault{Kind: FaultACLoss, Host: "cp-2"})
	r.fails("cp-1", ping+"10.98.0.12")
	r.fails("cp-1", ping+"10.99.0.112")
	h, _ := r.lab.Layout.Host("cp-2")
	if err := r.client.Power(r.t.Context(), PowerRequest{Host: h.Name, Action: ActionOn}); err == nil {
		r.t.Error("a host without mains was switched on")
	}
	r.clear()
	r.booted("cp-2")
	r.works("cp-1", ping+"10.98.0.12")
	r.works("cp-1", redfishRoot+"https://10.99.0.112/redfish/v1/")
}

func testDaemonKilled(r *real) {
	r.inject(Fault{Kind: FaultDelay, Host: "cp-2", Delay: 50 * time.Millisecond})
	before, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	if err := syscall.Kill(before.PID, syscall.SIGKILL); err != nil {
		r.t.Fatal(err)
	}
	r.eventually("the daemon is gone", func() bool { _, err := r.client.Status(r.t.Context()); return err != nil })
	if _, err := r.lab.EnsureDaemon(r.t.Context(), testLauncher); err != nil {
		r.t.Fatal(err)
	}
	after, err := r.client.Status(r.t.Context())
	if err != nil || after.PID == before.PID {
		r.t.Fatalf("the daemon is process %d (%v)", after.PID, err)
	}
	after.PID = before.PID
	for i := range after.Hosts { // Since is the time of adoption, not of the boot
		after.Hosts[i].Since = before.Hosts[i].Since
	}
	if diff := cmp.Diff(before, after); diff != "" {
		r.t.Errorf("after a restart of the daemon:\n%s", diff)
	}
	if rtt := r.roundTrip(); rtt < 100*time.Millisecond {
		r.t.Errorf("round trip takes %s: the delay is lost", rtt)
	}
	r.clear()
	r.power("cp-2", ActionCut)
	r.fails("cp-1", ping+"10.98.0.12")
}

// testSessionKilled kills everything of a lab, as the end of a session does: the
// daemon, and each host with the conmon that tells podman of its end.
func testSessionKilled(r *real) {
	daemon, err := r.client.Status(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	killed := []int{daemon.PID}
	for _, h := range r.lab.Layout.Hosts {
		if err := r.lab.PowerOn(r.t.Context(), h); err != nil {
			r.t.Fatal(err)
		}
		r.booted(h.Name)
		st, err := inspect(r.t.Context(), h)
		if err != nil || !isConmon(st.ConmonPid) {
			r.t.Fatalf("%s: %+v (%v)", h.Name, st, err)
		}
		killed = append(killed, st.ConmonPid, st.Pid)
	}
	for _, pid := range killed {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			r.t.Fatal(err)
		}
	}
	r.eventually("the daemon is gone", func() bool { _, err := r.client.Status(r.t.Context()); return err != nil })
	r.up()
	r.works("cp-1", ping+"10.98.0.12")
}

// testDaemonEndsInABoot ends and kills the daemon at several moments of a boot: as
// a command does that is itself killed in the middle of Down.
func testDaemonEndsInABoot(r *real) {
	h, _ := r.lab.Layout.Host("cp-2")
	signals := []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL}
	for i := range 12 {
		after := time.Duration(i) * 30 * time.Millisecond
		r.power("cp-2", ActionCut)
		daemon, err := r.client.Status(r.t.Context()) // now: it has no answer in the middle of a boot
		if err != nil {
			r.t.Fatal(err)
		}
		if err := r.lab.PowerOn(r.t.Context(), h); err != nil {
			r.t.Fatal(err)
		}
		time.Sleep(after) // the moment of the boot; nothing is waited for
		if err := syscall.Kill(daemon.PID, signals[i%len(signals)]); err != nil {
			r.t.Fatal(err)
		}
		r.eventually("the daemon is gone", func() bool { _, err := r.client.Status(r.t.Context()); return err != nil })
		if _, err := r.lab.EnsureDaemon(r.t.Context(), testLauncher); err != nil {
			r.t.Fatal(err)
		}
		if err := r.lab.PowerOn(r.t.Context(), h); err != nil {
			r.t.Fatal(err)
		}
		r.booted("cp-2")
	}
}

// interrupt starts this test binary as a command of the lab, kills it after a
// random time, and reports whether it had ended before.
func interrupt(t *testing.T, random *rand.Rand, variable, root string) bool {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), variable+"="+root, nameVariable+"="+realName)
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	after := time.Duration(random.IntN(900)) * time.Millisecond
	time.Sleep(after)
	_ = cmd.Process.Kill() // it may have ended
	state, err := cmd.Process.Wait()
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%s: after %s: %s", variable, after, state)
	return state.Success()
}

func TestAnInterruptedUpOrDownIsFinishedByTheNextOne(t *testing.T) {
	needLab(t)
	r := &real{t: t, root: filepath.Join(t.TempDir(), "labs")}
	down := func() {
		if err := Down(context.Background(), r.root, realName); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(down)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 10 {
		if interrupt(t, random, upVariable, r.root) {
			interrupt(t, random, downVariable, r.root)
		}
	}
	r.up()
	r.eventually("the hosts hear each other", func() bool { _, err := r.sh("cp-1", ping+"10.98.0.12"); return err == nil })
	r.works("cp-1", "getent ahostsv4 "+r.name("api"))
	interrupt(t, random, downVariable, r.root)
	down()
	if left := trace(t, false); strings.Contains(left, realName) || exists(r.root) {
		files, _ := filepath.Glob(filepath.Join(r.root, "*", "*")) // .name.gone, too
		own, _ := os.ReadDir(r.root)
		t.Errorf("left after down:\n%s\nin %s: %v, %v", left, r.root, own, files)
	}
}
