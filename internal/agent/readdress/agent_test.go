package readdress

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/decide/nodeaddress"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/etcdpod"
	"github.com/holdfast/holdfast/internal/model/state"
)

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// loner is a site of one control plane, which takes what DHCP gives it.
type loner struct {
	*Agent
	is      netip.Prefix
	boot    string
	files   decide.Side
	urls    []string
	vips    decide.Side
	shown   map[string]string // what the Node says
	text    string            // what the Infrastructure object announces
	led     int
	copies  bool
	fails   error  // of the next change of files
	settled string // what the Infrastructure object says of its place
	keeps   bool   // the site keeps its virtual IPs
	added   bool   // somebody added a pair of virtual IPs at the old place, which the plan does not know
	keyless error  // for the change of files
	looks   int    // at whether it can be made
}

func newLoner(t *testing.T) *loner {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	l := &loner{
		is: netip.MustParsePrefix("10.98.0.11/24"), boot: "b1", files: decide.From, vips: decide.From,
		urls: []string{etcdpod.PeerURL(addr("10.98.0.11"))}, shown: map[string]string{},
	}
	l.Agent = &Agent{Store: install.Store{Root: t.TempDir()}, Host: func() string { return "cp-1" }, ControlPlane: true, Now: func() time.Time { now = now.Add(time.Second); return now }}
	l.World = World{
		Kernel: func() ([]nodeaddress.Address, []state.HostRoute, error) {
			return []nodeaddress.Address{{Interface: "eth0", Index: 2, Prefix: l.is, Usable: true}}, nil, nil
		},
		Boot: func() (string, error) { return l.boot, nil },
		Able: func(decide.Plan, decide.Side, decide.Journal) error { l.looks++; return l.keyless },
		Keep: func() error { l.copies = true; return nil },
		Move: func(_ decide.Plan, to decide.Side, _ decide.Journal) error {
			if err := l.fails; err != nil {
				l.fails = nil
				return err
			}
			l.files = to
			return nil
		},
		Trim:   func(decide.Plan, decide.Side, decide.Journal) error { return nil },
		Forget: func() error { l.copies = false; return nil },
		Reboot: func(context.Context) error { l.boot += "+"; return nil },
		Quiet:  func(context.Context) error { return nil },
		Etcd: func() (Etcd, error) {
			if l.is.Addr() == addr("10.98.0.11") != (l.files == decide.From) {
				return nil, errors.New("etcd does not run")
			}
			return l, nil
		},
		Cluster: func(_ context.Context, p decide.Plan, to decide.Side, _ decide.Journal) error {
			l.vips, l.settled = to, state.FormatAnnotation(decide.Settled{Plan: p.ID, At: to})
			return nil
		},
		Lead: func(map[netip.Addr]netip.Addr) error { l.led++; return nil },
		Withdraw: func(_ context.Context, id string) error {
			var p decide.Plan
			if l.text != "" {
				if err := json.Unmarshal([]byte(l.text), &p); err != nil || p.ID != id {
					return err
				}
			}
			l.text, l.settled = "", ""
			return nil
		},
		Tell: func(_ context.Context, node, value string) error {
			l.shown[node] = value
			return nil
		},
	}
	return l
}

func (l *loner) PeerURLs(context.Context) (state.MemberID, map[state.MemberID][]string, error) {
	return 7, map[state.MemberID][]string{7: l.urls}, nil
}

func (l *loner) Relocate(_ context.Context, id state.MemberID, url string) error {
	if id != 7 {
		return errors.New("another member")
	}
	l.urls = []string{url}
	return nil
}
func (l *loner) Close() error { return nil }

// announces puts a plan into the API.
func (l *loner) announces(t *testing.T, change func(*decide.Plan)) {
	t.Helper()
	p := decide.Plan{
		ID: "move-1", At: time.Unix(1, 0),
		From: decide.Place{MachineNetworks: []string{"10.98.0.0/24"}, APIVIPs: []string{"10.98.0.5"}, IngressVIPs: []string{"10.98.0.6"}, Hosts: map[string][]netip.Addr{"cp-1": {addr("10.98.0.11")}}},
		To:   decide.Place{MachineNetworks: []string{"10.77.0.0/24"}, APIVIPs: []string{"10.77.0.5"}, IngressVIPs: []string{"10.77.0.6"}},
	}
	change(&p)
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	l.text = string(data)
}

// hears gives the agent what the API says, if it answers.
func (l *loner) hears() bool {
	if _, err := l.Etcd(); err != nil {
		return false
	}
	in := kube.Infrastructure{BareMetal: true, APIVIPs: []netip.Addr{addr("10.98.0.5")}, IngressVIPs: []netip.Addr{addr("10.98.0.6")}, Readdress: l.text, Readdressed: l.settled}
	if l.added && l.vips == decide.From {
		in.APIVIPs, in.IngressVIPs = append(in.APIVIPs, addr("fd98::5")), append(in.IngressVIPs, addr("fd98::6"))
	}
	if l.vips == decide.To && !l.keeps {
		in.APIVIPs, in.IngressVIPs = []netip.Addr{addr("10.77.0.5")}, []netip.Addr{addr("10.77.0.6")}
	}
	l.Nodes([]state.Node{{Name: "cp-1", Addresses: []netip.Addr{l.is.Addr()}, Annotations: map[string]string{install.Annotation: l.shown["cp-1"]}}})
	return l.Infrastructure(in)
}

// runs lets the agent work, and starts it anew at each boot.
func (l *loner) runs(t *testing.T, times int) {
	t.Helper()
	for range times {
		boot := l.boot
		l.hears()
		if _, err := l.step(t.Context()); err != nil && !strings.Contains(err.Error(), "disk") {
			t.Fatal(err)
		}
		if l.boot != boot {
			again := newLoner(t)
			again.Store, again.World = l.Store, l.World
			now := l.Now
			l.Agent = again.Agent
			l.Now = now
		}
	}
}

func (l *loner) doing(t *testing.T) install.Doing {
	t.Helper()
	var d install.Doing
	data, err := os.ReadFile(filepath.Join(l.Store.Root, install.DoingPath))
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestALoneHostMovesWithItsSiteAndForgetsThePlan(t *testing.T) {
	l := newLoner(t)
	l.announces(t, func(*decide.Plan) {})
	l.runs(t, 20)
	if d := l.doing(t); l.files != decide.From || d.Act != decide.Wait || !strings.Contains(l.shown["cp-1"], "move-1") {
		t.Fatalf("before it is carried: %+v, %q", d, l.shown)
	}
	l.is, l.fails = netip.MustParsePrefix("10.77.0.99/24"), errors.New("disk full")
	l.runs(t, 60)
	plan, _, err := l.Store.Load()
	if err != nil || plan != nil {
		t.Errorf("the plan is still there: %+v, %v", plan, err)
	}
	if want := etcdpod.PeerURL(addr("10.77.0.99")); l.files != decide.To || l.vips != decide.To || l.urls[0] != want || l.text != "" || l.copies || l.boot != "b1+" || l.shown["cp-1"] != "" {
		t.Errorf("files %s, cluster %s, etcd %v, announced %q, copies %t, boot %s, node %q", l.files, l.vips, l.urls, l.text, l.copies, l.boot, l.shown)
	}
}

// The watch may be late: what it told is not what the API has when the announcement is taken away.
func TestTheEndOfAMoveLeavesTheAnnouncementOfTheNext(t *testing.T) {
	l := newLoner(t)
	l.announces(t, func(*decide.Plan) {})
	first := l.text
	l.runs(t, 3)
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	for range 60 {
		if _, j, err := l.Store.Load(); err != nil {
			t.Fatal(err)
		} else if j.Over {
			break
		}
		l.runs(t, 1)
	}
	over := &decide.Plan{ID: "move-1"}
	if err := l.ended(t.Context(), over); err != nil || l.text != first {
		t.Fatalf("before its Node is seen to say that it is over: %v, announced is %q", err, l.text)
	}
	l.hears()
	l.announces(t, func(p *decide.Plan) { p.ID = "move-2" })
	if err := l.ended(t.Context(), over); err != nil || !strings.Contains(l.text, "move-2") {
		t.Errorf("%v, announced is %q", err, l.text)
	}
	l.text = first
	if err := l.ended(t.Context(), over); err != nil || l.text != "" {
		t.Errorf("its own announcement stays: %v, %q", err, l.text)
	}
}

func TestTheNetworkOfAMovedHostDoesNotFollowAnObjectOfTheOldPlace(t *testing.T) {
	l := newLoner(t)
	l.announces(t, func(*decide.Plan) {})
	if !l.hears() {
		t.Fatal("without a plan the network follows the API")
	}
	l.runs(t, 5)
	if !l.hears() {
		t.Error("where it is announced the network follows the API")
	}
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	for range 60 {
		if l.files == decide.To && l.vips == decide.From {
			if _, j, err := l.Store.Load(); err != nil || j.At == decide.To && l.hears() {
				t.Fatalf("%v: it follows the virtual IPs of the place that it has left", err)
			}
		}
		l.runs(t, 1)
	}
	if !l.hears() {
		t.Error("after the move the network follows the API")
	}
}

func TestAPlanThatMakesNoSenseIsNotKept(t *testing.T) {
	for sentence, change := range map[string]func(*decide.Plan){
		"a virtual IP outside":       func(p *decide.Plan) { p.To.APIVIPs = []string{"10.66.0.5"} },
		"no network":                 func(p *decide.Plan) { p.To.MachineNetworks = nil },
		"other families":             func(p *decide.Plan) { p.To.MachineNetworks = []string{"fd77::/64"} },
		"one virtual IP for both":    func(p *decide.Plan) { p.To.IngressVIPs = p.To.APIVIPs },
		"a host that is not there":   func(p *decide.Plan) { p.To.Hosts = map[string][]netip.Addr{"cp-9": {addr("10.77.0.9")}} },
		"no id":                      func(p *decide.Plan) { p.ID = "" },
		"an address of a virtual IP": func(p *decide.Plan) { p.To.Hosts = map[string][]netip.Addr{"cp-1": {addr("10.77.0.5")}} },
	} {
		l := newLoner(t)
		l.announces(t, change)
		l.hears()
		_, err := l.step(t.Context())
		if plan, _, _ := l.Store.Load(); err == nil || plan != nil {
			t.Errorf("%s: %v, kept %v", sentence, err, plan)
		}
	}
}

func TestAWithdrawnPlanIsForgottenUnlessTheHostHasBegun(t *testing.T) {
	l := newLoner(t)
	l.announces(t, func(*decide.Plan) {})
	l.runs(t, 3)
	l.text = ""
	l.runs(t, 3)
	if plan, _, err := l.Store.Load(); plan != nil || err != nil || l.shown["cp-1"] != "" {
		t.Errorf("withdrawn: %+v, %v, %q", plan, err, l.shown)
	}
	l.announces(t, func(*decide.Plan) {})
	l.runs(t, 3)
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	for range 30 {
		l.runs(t, 1)
		if _, j, _ := l.Store.Load(); j.Moving != "" {
			break
		}
	}
	l.text = ""
	l.runs(t, 1)
	if plan, j, err := l.Store.Load(); plan == nil || err != nil || j.Free() && !j.Over {
		t.Errorf("a host that has begun forgot the plan: %+v, %v", j, err)
	}
}

// TestAHostThatCannotSignDoesNotBegin: Pacemaker would be stopped, and the files never be whole.
func TestAHostThatCannotSignDoesNotBegin(t *testing.T) {
	l := newLoner(t)
	l.keyless = errors.New("open etcd/ca.key: no such file")
	l.Quiet = func(context.Context) error { t.Error("Pacemaker is stopped"); return nil }
	l.announces(t, func(*decide.Plan) {})
	l.runs(t, 3)
	if d := l.doing(t); d.Plan != "move-1" || !strings.Contains(d.Lacks, "etcd/ca.key") || !strings.Contains(l.shown["cp-1"], "etcd/ca.key") {
		t.Fatalf("announced: %+v, %q", d, l.shown)
	}
	l.runs(t, 120)
	if l.looks > 20 { // a look signs certificates, and a second passes with each question for the time
		t.Errorf("while it waits it looked %d times", l.looks)
	}
	l.is = netip.MustParsePrefix("10.77.0.99/24")
	l.runs(t, 60)
	if _, j, err := l.Store.Load(); err != nil || j.Moving != "" || j.At != decide.From || l.copies || l.files != decide.From {
		t.Errorf("it has begun: %+v, %v", j, err)
	}
	l.keyless, l.Quiet = nil, func(context.Context) error { return nil }
	l.runs(t, 120)
	if plan, _, err := l.Store.Load(); err != nil || plan != nil || l.files != decide.To || l.text != "" {
		t.Errorf("with the key it does not move: %+v, %v, files %s", plan, err, l.files)
	}
}
