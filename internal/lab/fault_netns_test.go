package lab

import (
	"context"
	"encoding/binary"
	"net"
	"net/netip"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/holdfast/holdfast/internal/lab/namednetns"
)

// wired is the network of a lab whose hosts are empty namespaces, which is
// enough for faults on frames.
type wired struct {
	t      *testing.T
	layout Layout
}

func startWired(t *testing.T) wired {
	t.Helper()
	needLab(t)
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	name := "w" + realName[len("self"):]
	l := NewLayout(Spec{Name: name, ControlPlanes: 2, Families: []Family{V4, V6}, Bare: true}.WithDefaults())
	t.Cleanup(func() {
		if err := removeNamespaces(name); err != nil {
			t.Error(err)
		}
		_ = os.Remove(namednetns.Dir) // other labs may have namespaces there
	})
	if err := createNetwork(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	for _, h := range l.Hosts {
		if err := nicsUp(l, h, nil); err != nil {
			t.Fatal(err)
		}
	}
	w := wired{t, l}
	w.eventually("the hosts reach each other", func() bool { return w.seen("cp-2", "cp-1") == whole && w.seen("cp-1", "cp-2") == whole })
	return w
}

func TestAPortThatAKilledCommandLeftOutsideOfItsBridgeGetsThere(t *testing.T) {
	w := startWired(t)
	nl, err := namespace(w.layout.Switch()).handle()
	if err != nil {
		t.Fatal(err)
	}
	defer nl.Close()
	port, err := nl.LinkByName(w.layout.Hosts[0].Machine.Port)
	if err == nil {
		err = nl.LinkSetNoMaster(port)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("cp-2 does not hear cp-1", func() bool { return w.seen("cp-2", "cp-1") != whole })
	if err := createNetwork(t.Context(), w.layout); err != nil {
		t.Fatal(err)
	}
	w.eventually("the hosts reach each other again", func() bool { return w.seen("cp-2", "cp-1") == whole && w.seen("cp-1", "cp-2") == whole })
}

// TestAPortOfANamespaceThatHasGoneIsMadeAnew: something in the former namespace still
// runs, so that it and its NIC are still there without a name.
func TestAPortOfANamespaceThatHasGoneIsMadeAnew(t *testing.T) {
	w := startWired(t)
	h := w.layout.Hosts[0]
	former, err := netns.GetFromName(h.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = former.Close() }()
	err = namespace(h.Namespace).remove()
	if err == nil {
		err = createNetwork(t.Context(), w.layout)
	}
	if err == nil {
		err = nicsUp(w.layout, h, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.eventually("the hosts reach each other again", func() bool { return w.seen("cp-2", "cp-1") == whole && w.seen("cp-1", "cp-2") == whole })
}

func (w wired) eventually(what string, ok func() bool) {
	w.t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); {
		if ok() {
			return
		}
	}
	w.t.Fatalf("not within 20 s: %s", what)
}

func (w wired) host(name string) Host {
	h, _ := w.layout.Host(name)
	return h
}

// in puts the faults in force, and nothing else.
func (w wired) in(list ...Fault) {
	w.t.Helper()
	for i := range list {
		if err := list[i].Check(); err != nil {
			w.t.Fatal(err)
		}
	}
	if err := applyRules(w.t.Context(), namespace(w.layout.Switch()), packetRules(w.layout, list)); err != nil {
		w.t.Fatal(err)
	}
}

// looks records which kinds of frames were seen.
type looks struct{ arp, discovery bool }

var (
	whole = looks{true, true}
	none  = looks{}
)

// The EtherTypes, the IPv6 next header and the ICMPv6 type that identify
// frames.
const (
	etherARP, etherIPv6    = 0x0806, 0x86dd
	nextICMPv6, solicit    = 58, 135
	lookFor                = 400 * time.Millisecond
	ethernet, nextHeaderAt = 14, 14 + 6
)

// seen reports which queries of one host for a neighbour reach the NIC of the
// other.
func (w wired) seen(from, to string) looks {
	w.t.Helper()
	file := w.listenFrames(w.host(to))
	defer func() { _ = file.Close() }()
	w.ask(w.host(from), w.host(to))
	var got looks
	if err := file.SetReadDeadline(time.Now().Add(lookFor)); err != nil {
		w.t.Fatal(err)
	}
	source, _ := net.ParseMAC(w.host(from).Machine.MAC)
	for buf := make([]byte, frameSize); got != whole; {
		n, err := file.Read(buf)
		if err != nil {
			return got
		}
		f := buf[10:n] // after the header of a virtual NIC
		if len(f) < 60-18 || string(f[6:12]) != string(source) {
			continue
		}
		switch binary.BigEndian.Uint16(f[12:]) {
		case etherARP:
			got.arp = true
		case etherIPv6:
			got.discovery = got.discovery || f[nextHeaderAt] == nextICMPv6 && f[ethernet+40] == solicit
		}
	}
	return got
}

func (w wired) listenFrames(h Host) *os.File {
	w.t.Helper()
	var file *os.File
	err := namespace(h.Namespace).do(func() error {
		link, err := netlink.LinkByName(h.Machine.Name)
		if err == nil {
			file, err = openPacket(link.Attrs().Index)
		}
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return file
}

// ask makes one host look for the other by both families, after it has
// forgotten the other's address.
func (w wired) ask(from, to Host) {
	w.t.Helper()
	nl, err := namespace(from.Namespace).handle()
	if err != nil {
		w.t.Fatal(err)
	}
	defer nl.Close()
	if err := flushNeighbours(nl); err != nil {
		w.t.Fatal(err)
	}
	for _, a := range to.Machine.addrs() {
		ctx, cancel := context.WithTimeout(w.t.Context(), lookFor)
		if conn, err := namespace(from.Namespace).dial(ctx, "udp", netip.AddrPortFrom(a, 9).String()); err == nil {
			_, _ = conn.Write([]byte("word")) // an error of delivery is an answer too
			_ = conn.Close()
		}
		cancel()
	}
}

func TestALostDirectionTakesARPAndNeighbourDiscoveryAlong(t *testing.T) {
	w := startWired(t)
	for _, tt := range []struct {
		fault    Fault
		from, to looks
	}{
		{Fault{Kind: FaultDrop, Host: "cp-2", Direction: DirectionIn}, whole, none},
		{Fault{Kind: FaultDrop, Host: "cp-2", Direction: DirectionOut}, none, whole},
		{Fault{Kind: FaultNoForward, Host: "cp-2"}, none, none},
		{Fault{Kind: FaultPartition, Host: "cp-2"}, none, none},
		{Fault{Kind: FaultNoForward, Host: "cp-2", NIC: OnFencing}, whole, whole},
	} {
		w.in(tt.fault)
		if from, to := w.seen("cp-2", "cp-1"), w.seen("cp-1", "cp-2"); from != tt.from || to != tt.to {
			t.Errorf("%s: from it came %+v, want %+v; to it came %+v, want %+v", tt.fault, from, tt.from, to, tt.to)
		}
		w.carrier("cp-2", true)
	}
	w.in()
	nic := w.host("cp-2").Machine
	if err := setPort(w.layout, nic, false); err != nil {
		t.Fatal(err)
	}
	if from, to := w.seen("cp-2", "cp-1"), w.seen("cp-1", "cp-2"); from != none || to != none {
		t.Errorf("over a pulled cable came %+v from the host and %+v to it", from, to)
	}
	w.carrier("cp-2", false)
	if err := setPort(w.layout, nic, true); err != nil {
		t.Fatal(err)
	}
	w.eventually("all passes again", func() bool { return w.seen("cp-2", "cp-1") == whole && w.seen("cp-1", "cp-2") == whole })
}

// carrier checks the carrier that a host's NIC reports.
func (w wired) carrier(name string, want bool) {
	w.t.Helper()
	nl, err := namespace(w.host(name).Namespace).handle()
	if err != nil {
		w.t.Fatal(err)
	}
	defer nl.Close()
	link, err := nl.LinkByName(machineNIC)
	if err != nil {
		w.t.Fatal(err)
	}
	if got := link.Attrs().RawFlags&(1<<16) != 0; got != want { // IFF_LOWER_UP
		w.t.Errorf("the carrier of %s is %t, want %t", name, got, want)
	}
}

func TestAFilteredPortTakesNoPacketOfItsDirectionAndAllOthersPass(t *testing.T) {
	w := startWired(t)
	for _, name := range []string{"cp-1", "cp-2"} {
		for _, port := range []int{2379, 2380} {
			w.accept(name, port)
		}
	}
	for _, tt := range []struct {
		fault         Fault
		toIt, toOther bool // port 2380 of the host, port 2380 of its peer
	}{
		{Fault{Kind: FaultFilterPort, Host: "cp-2", Port: 2380, Direction: DirectionIn}, false, true},
		{Fault{Kind: FaultFilterPort, Host: "cp-2", Port: 2380, Direction: DirectionOut}, true, false},
		{Fault{Kind: FaultFilterPort, Host: "cp-2", Port: 2380}, false, false},
		{Fault{Kind: FaultFilterPort, Host: "cp-2", Port: 2380, Protocol: "tcp"}, false, false},
		{Fault{Kind: FaultFilterPort, Host: "cp-2", Port: 2380, Protocol: "udp"}, true, true},
	} {
		w.in(tt.fault)
		if in, out := w.reach("cp-1", "cp-2", 2380), w.reach("cp-2", "cp-1", 2380); in != tt.toIt || out != tt.toOther {
			t.Errorf("%s: the port of the host is reached: %t, that of its peer: %t", tt.fault, in, out)
		}
		if !w.reach("cp-1", "cp-2", 2379) || !w.reach("cp-2", "cp-1", 2379) {
			t.Errorf("%s: another port is not reached", tt.fault)
		}
	}
}

// accept takes connections to a port of a host until the test ends.
func (w wired) accept(name string, port int) {
	w.t.Helper()
	for _, address := range w.all(name) {
		l, err := namespace(w.host(name).Namespace).listen(w.t.Context(), net.JoinHostPort(address, strconv.Itoa(port)))
		if err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = l.Close() })
	}
}

// all returns the addresses of a host on both networks.
func (w wired) all(name string) []string {
	var out []string
	for _, nic := range []NIC{w.host(name).Machine, w.host(name).Fencing} {
		for _, a := range nic.addrs() {
			out = append(out, a.String())
		}
	}
	return out
}

// reach reports whether a port of a host can be reached at its addresses. It
// fails the test if only some of them answer.
func (w wired) reach(from, to string, port int) bool {
	w.t.Helper()
	reached := 0
	for _, address := range w.all(to) {
		ctx, cancel := context.WithTimeout(w.t.Context(), lookFor)
		conn, err := namespace(w.host(from).Namespace).dial(ctx, "tcp", net.JoinHostPort(address, strconv.Itoa(port)))
		cancel()
		if err == nil {
			reached++
			_ = conn.Close()
		}
	}
	if reached != 0 && reached != len(w.all(to)) {
		w.t.Errorf("port %d of %s is reached by %d of its %d addresses", port, to, reached, len(w.all(to)))
	}
	return reached > 0
}
