package lab

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/redfish"
)

func testLinkDown(r *real) {
	r.inject(Fault{Kind: FaultLinkDown, Host: "cp-2"})
	r.works("cp-2", "grep -qx 0 /sys/class/net/eth0/carrier")
	r.fails("cp-1", ping+"10.98.0.12")
	r.works("cp-1", ping+"10.99.0.12")
	r.power("cp-2", ActionReset) // a cable stays pulled across a boot
	r.booted("cp-2")
	r.fails("cp-1", ping+"10.98.0.12")
	r.clear()
	r.eventually("the cable is back", func() bool { _, err := r.sh("cp-1", ping+"10.98.0.12"); return err == nil })
}

// send passes a short text from one host to another over UDP, one way, and
// reports whether it arrived. It fixes the neighbour entries, because ARP needs
// both directions.
func (r *real) send(from, to string) bool {
	a, _ := r.lab.Layout.Host(from)
	b, _ := r.lab.Layout.Host(to)
	r.works(from, "ip neigh replace "+b.Machine.addrs()[0].String()+" lladdr "+b.Machine.MAC+" dev eth0 nud permanent")
	r.works(to, "ip neigh replace "+a.Machine.addrs()[0].String()+" lladdr "+a.Machine.MAC+" dev eth0 nud permanent")
	r.works(to, "rm -f /tmp/got; systemd-run --quiet --collect --unit=receive sh -c 'timeout 2 socat -u UDP-RECV:5000 CREATE:/tmp/got'")
	r.eventually("the receiver listens", func() bool { _, err := r.sh(to, "ss -lun | grep -q :5000"); return err == nil })
	r.works(from, "for i in 1 2 3; do echo word | socat - UDP-SENDTO:"+b.Machine.addrs()[0].String()+":5000; done")
	r.eventually("the receiver ends", func() bool { _, err := r.sh(to, "ss -lun | grep -q :5000"); return err != nil })
	_, err := r.sh(to, "grep -q word /tmp/got")
	r.works(from, "ip neigh flush all nud permanent")
	r.works(to, "ip neigh flush all nud permanent")
	return err == nil
}

func testDrop(r *real) {
	for direction, want := range map[string][2]bool{DirectionIn: {true, false}, DirectionOut: {false, true}} {
		r.inject(Fault{Kind: FaultDrop, Host: "cp-2", Direction: direction})
		got := [2]bool{r.send("cp-2", "cp-1"), r.send("cp-1", "cp-2")}
		if got != want {
			r.t.Errorf("drop %s on cp-2: sent from it %t, sent to it %t", direction, got[0], got[1])
		}
		r.works("cp-2", "grep -qx 1 /sys/class/net/eth0/carrier")
		r.clear()
	}
	if !r.send("cp-2", "cp-1") || !r.send("cp-1", "cp-2") {
		r.t.Error("after clear packets are still dropped")
	}
}

func testNoForward(r *real) {
	r.inject(Fault{Kind: FaultNoForward, Host: "cp-2"})
	r.fails("cp-1", ping+"10.98.0.12")
	r.fails("cp-2", ping+"10.98.0.1")
	r.works("cp-2", "grep -qx 1 /sys/class/net/eth0/carrier")
	r.works("cp-1", ping+"10.99.0.12")
	r.clear()
	r.eventually("the port forwards again", func() bool { _, err := r.sh("cp-1", ping+"10.98.0.12"); return err == nil })
}

func testFilterPort(r *real) {
	listen := func() {
		r.works("cp-2", "systemd-run --quiet --collect --unit=listen socat TCP-LISTEN:2380,fork,reuseaddr PIPE")
		r.eventually("somebody listens", func() bool { _, err := r.sh("cp-2", "ss -ltn | grep -q :2380"); return err == nil })
	}
	listen()
	connect := "socat -u /dev/null TCP:10.98.0.12:2380,connect-timeout=1"
	r.works("cp-1", connect)
	r.inject(Fault{Kind: FaultFilterPort, Host: "cp-2", Port: 2380, Protocol: "tcp", Direction: DirectionIn})
	r.fails("cp-1", connect)
	r.power("cp-2", ActionReset)
	r.booted("cp-2")
	listen()
	r.works("cp-1", ping+"10.98.0.12")
	r.fails("cp-1", connect)
	r.clear()
	r.works("cp-1", connect)
}

func testPartition(r *real) {
	r.inject(Fault{Kind: FaultPartition, Host: "cp-2"})
	r.fails("cp-1", ping+"10.98.0.12")
	r.fails("cp-2", ping+"10.98.0.11")
	for _, h := range []string{"cp-1", "cp-2"} {
		r.works(h, ping+"10.98.0.1")
	}
	r.works("cp-1", ping+"10.99.0.12") // the other network is whole
	r.clear()
	r.eventually("the hosts hear each other", func() bool { _, err := r.sh("cp-1", ping+"10.98.0.12"); return err == nil })
}

func testEtcdDamage(r *real) {
	r.works("cp-1", "mkdir -p /var/lib/etcd/member && touch /var/lib/etcd/member/x /var/lib/etcd/record")
	r.inject(Fault{Kind: FaultEtcdDamage, Host: "cp-1", Part: damageMember})
	r.works("cp-1", "test ! -e /var/lib/etcd/member && test -e /var/lib/etcd/record")
	r.inject(Fault{Kind: FaultEtcdDamage, Host: "cp-1", Part: damageDisk})
	r.works("cp-1", "test ! -e /var/lib/etcd/record")
}

// answered counts how many of 100 pings come back.
func (r *real) answered() int {
	out, _ := r.sh("cp-1", "ping -q -c100 -i0.01 -W1 10.98.0.12 | awk '/received/{print $4}'")
	n, err := strconv.Atoi(out)
	if err != nil {
		r.t.Fatal(err)
	}
	return n
}

func testLoss(r *real) {
	r.inject(Fault{Kind: FaultLoss, Host: "cp-2", Percent: 30})
	// 30 % each way: 49 of 100 on average.
	if n := r.answered(); n < 20 || n > 80 {
		r.t.Errorf("%d of 100 packets came back", n)
	}
	r.clear()
	if n := r.answered(); n != 100 {
		r.t.Errorf("after clear %d of 100 packets came back", n)
	}
}

func (r *real) roundTrip() time.Duration {
	out, err := r.sh("cp-1", "ping -q -c5 -i0.05 10.98.0.12 | awk -F/ '/rtt/{print $5}'")
	ms, convErr := strconv.ParseFloat(out, 64)
	if err = errors.Join(err, convErr); err != nil {
		r.t.Fatalf("%s: %v", out, err)
	}
	return time.Duration(ms * float64(time.Millisecond))
}

func testDelay(r *real) {
	r.inject(Fault{Kind: FaultDelay, Host: "cp-2", Delay: 50 * time.Millisecond})
	if rtt := r.roundTrip(); rtt < 100*time.Millisecond || rtt > 300*time.Millisecond {
		r.t.Errorf("round trip takes %s, want a little over 100ms", rtt)
	}
	// Large segments and unfinished checksums must get through whole.
	r.works("cp-2", "rm -f /tmp/big; systemd-run --quiet --collect --unit=big socat -u TCP-LISTEN:5001 CREATE:/tmp/big")
	r.eventually("the receiver listens", func() bool { _, err := r.sh("cp-2", "ss -ltn | grep -q :5001"); return err == nil })
	r.works("cp-1", "head -c 2000000 /dev/urandom >/tmp/big; timeout 15 socat -u OPEN:/tmp/big TCP:10.98.0.12:5001")
	r.eventually("all bytes are there", func() bool { out, _ := r.sh("cp-2", "stat -c %s /tmp/big"); return out == "2000000" })
	one, _ := r.sh("cp-1", "sha256sum </tmp/big")
	two, _ := r.sh("cp-2", "sha256sum </tmp/big")
	if one != two {
		r.t.Errorf("sent %s, came %s", one, two)
	}
	r.clear()
	if rtt := r.roundTrip(); rtt > 20*time.Millisecond {
		r.t.Errorf("after clear a round trip takes %s", rtt)
	}
}

func testProcess(r *real) {
	state := func() string { out, _ := r.sh("cp-2", "ps -o state= -C sleep"); return out }
	r.works("cp-2", "systemd-run --quiet --collect --unit=victim sleep 1000")
	r.eventually("the victim sleeps", func() bool { return state() == "S" })
	r.inject(Fault{Kind: FaultProcessStop, Host: "cp-2", Process: "sleep"})
	r.eventually("the victim is stopped", func() bool { return state() == "T" })
	r.clear()
	r.eventually("the victim goes on", func() bool { return state() == "S" })
	r.inject(Fault{Kind: FaultProcessKill, Host: "cp-2", Process: "sleep"})
	r.eventually("the victim is dead", func() bool { return state() == "" })
	if err := r.client.Inject(r.t.Context(), Fault{Kind: FaultProcessKill, Host: "cp-2", Process: "sleep"}); err == nil {
		r.t.Error("killing nothing succeeded")
	}
}

func testDiskFull(r *real) {
	write := "head -c 100000 /dev/zero >/var/lib/etcd/test && sync /var/lib/etcd/test"
	r.works("cp-1", write)
	r.inject(Fault{Kind: FaultDiskFull, Host: "cp-1"})
	r.fails("cp-1", "rm -f /var/lib/etcd/test2; head -c 100000 /dev/zero >/var/lib/etcd/test2 && sync /var/lib/etcd/test2")
	r.works("cp-1", "head -c 100000 /dev/zero >/root/test")
	r.works("cp-2", write)
	r.clear()
	r.works("cp-1", write)
}

// syncTime returns the longest time of twenty small writes with fsync. The
// writes take a second, because five at once would fit between two stalls.
func (r *real) syncTime() time.Duration {
	script := "m=0; for i in $(seq 20); do s=$(date +%s%N); dd if=/dev/zero of=/var/lib/etcd/slow bs=4k count=1 conv=fsync status=none; d=$(($(date +%s%N)-s)); [ $d -lt $m ] || m=$d; sleep 0.05; done; echo $m"
	out, err := r.sh("cp-1", script)
	ns, convErr := strconv.ParseInt(out, 10, 64)
	if err = errors.Join(err, convErr); err != nil {
		r.t.Fatalf("%s: %v", out, err)
	}
	return time.Duration(ns)
}

func testSlowDisk(r *real) {
	r.inject(Fault{Kind: FaultSlowDisk, Host: "cp-1", Delay: 300 * time.Millisecond})
	if d := r.syncTime(); d < 150*time.Millisecond {
		r.t.Errorf("no fsync takes longer than %s under stalls of 300ms", d)
	}
	r.clear()
	if d := r.syncTime(); d > 2*time.Second {
		r.t.Errorf("after clear an fsync takes %s", d)
	}
}

func testHangDisk(r *real) {
	write := "timeout -s KILL 1 dd if=/dev/zero of=/var/lib/etcd/hang bs=4k count=1 conv=fsync status=none"
	start := "systemd-run --quiet --collect --unit=writer sh -c 'while :; do echo x >>/var/lib/etcd/hang; sync /var/lib/etcd/hang; done'"
	r.works("cp-1", start)
	r.inject(Fault{Kind: FaultHangDisk, Host: "cp-1"})
	r.eventually("whoever writes hangs in the kernel", func() bool {
		out, _ := r.sh("cp-1", "cat /proc/[0-9]*/stat | grep -cE '^[0-9]+ [(](sh|sync)[)] D '")
		return out != "" && out != "0"
	})
	r.works("cp-1", "ls /var/lib/etcd")
	r.works("cp-1", "echo x >/root/hang && sync /root/hang")
	r.works("cp-2", write)
	if err := r.client.Inject(r.t.Context(), Fault{Kind: FaultDiskFull, Host: "cp-1"}); err == nil || !strings.Contains(err.Error(), "clear the fault hang-disk first") {
		r.t.Errorf("filling a disk that hangs: %v", err)
	}
	began := time.Now()
	r.power("cp-1", ActionCut)
	if took := time.Since(began); took > 20*time.Second {
		r.t.Errorf("a power cut waited %s for the disk", took)
	}
	r.power("cp-1", ActionOn)
	r.booted("cp-1")
	r.works("cp-1", start)
	r.eventually("the disk hangs after the boot", func() bool {
		out, _ := r.sh("cp-1", "cat /proc/[0-9]*/stat | grep -cE '^[0-9]+ [(](sh|sync)[)] D '")
		return out != "" && out != "0"
	})
	r.clear()
	r.works("cp-1", write)
	r.works("cp-1", "systemctl stop writer")
}

func testFreezeCgroup(r *real) {
	r.works("cp-2", "systemd-run --quiet --collect --unit=victim sh -c 'while :; do date +%N >/tmp/now; sleep 0.05; done'")
	moves := func() bool {
		out, _ := r.sh("cp-2", "a=$(cat /tmp/now); sleep 0.5; b=$(cat /tmp/now); [ \"$a\" = \"$b\" ] || echo moves")
		return out == "moves"
	}
	r.eventually("the victim runs", moves)
	r.inject(Fault{Kind: FaultFreezeCgroup, Host: "cp-2", Process: "sh"})
	r.eventually("the victim stands still", func() bool { return !moves() })
	r.clear()
	r.eventually("the victim goes on", moves)
	r.inject(Fault{Kind: FaultFreezeCgroup, Host: "cp-2", Process: "sh"})
	r.works("cp-2", "systemctl kill -s KILL victim")
	r.eventually("the victim dies", func() bool { _, err := r.sh("cp-2", "systemctl is-active victim"); return err != nil })
	r.clear()
}

func testQuirk(r *real) {
	h, _ := r.lab.Layout.Host("cp-2")
	r.inject(Fault{Kind: FaultBMC, Host: "cp-2", Quirk: "auth-status", Value: "503"})
	if err := r.lab.Reset(r.t.Context(), h, redfish.ResetForceOff); err == nil || !strings.Contains(err.Error(), "503") {
		r.t.Errorf("got %v", err)
	}
	r.clear()
	if err := r.lab.Reset(r.t.Context(), h, redfish.ResetOn); err != nil {
		r.t.Error(err)
	}
}
