package ingress_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/labsite/load"
)

// changeMost bounds a change of the second pair.
const changeMost = 10 * time.Second

// changeWithin bounds a change during which something is killed.
const changeWithin = 3 * time.Minute

// pair is a second pair of virtual IPs.
type pair struct{ api, ingress netip.Addr }

// right is the pair that the site was installed with; mistyped is one that an
// administrator corrects later.
var (
	right    = pair{netip.MustParseAddr("fd98::5"), netip.MustParseAddr("fd98::6")}
	mistyped = pair{netip.MustParseAddr("fd98::50"), netip.MustParseAddr("fd98::60")}
)

// pairTrial is a trial with clients of the first pair. None of their requests
// may fail.
type pairTrial struct {
	*trial
	hello      labsite.App
	kubeconfig string
	first      []string
}

const (
	firstAPI     = "first API VIP"
	firstIngress = "first ingress VIP"
)

// firstPair names the clients of the first pair.
var firstPair = []string{firstAPI, firstIngress}

// onPairs plays an event on the lab of two hosts with the named clients of the
// first pair. It begins and ends with the pair that the site was installed
// with.
func onPairs(t *testing.T, name string, times int, first []string, play func(*pairTrial)) {
	t.Helper()
	k := two()
	s := open(t, k)
	apps := map[string]labsite.App{}
	for _, h := range s.ControlPlanes() {
		apps[h] = appOn(t, s, h)
	}
	scenario(t, s, k, name, times, func(tr *trial) {
		path, err := tr.Lab.WriteKubeconfig(tr.Context(), tr.Power)
		if err != nil {
			tr.Fatal(err)
		}
		host, err := tr.Holder(tr.Lab.Layout.IngressVIPs[0])
		if err != nil {
			tr.Fatal(err)
		}
		p := &pairTrial{trial: tr, kubeconfig: path, hello: apps[host], first: first}
		p.restore()
		if slices.Contains(first, firstAPI) {
			p.Ask(firstAPI, p.apiShape(tr.Lab.Layout.APIVIPs[0]))
		}
		p.asks(firstIngress, web(tr.Lab.Layout.IngressVIPs[0]), p.hello)
		p.Steady("before")
		play(p)
		p.restore()
	})
}

// apiShape returns requests to the API server at an address.
func (p *pairTrial) apiShape(vip netip.Addr) load.Shape {
	shape := p.LifeOf(vip)
	shape.Rate, shape.Deadline = *rate, *deadline
	return shape
}

// holdfastVIP runs `holdfast vip`.
func (p *pairTrial) holdfastVIP(ctx context.Context, args ...string) error {
	line := append([]string{"vip"}, args...)
	out, err := p.Holdfast(ctx, append(line, "--kubeconfig", p.kubeconfig, "--timeout", "2m")...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}

func (q pair) words() []string { return []string{"add", q.api.String(), q.ingress.String()} }

var removal = []string{"remove"}

// change makes a change with the administrator's command. It records the time
// from the start of the command to its end.
func (p *pairTrial) change(what string, args ...string) {
	p.Helper()
	began := time.Now()
	if err := p.holdfastVIP(p.Context(), args...); err != nil {
		p.Fatalf("%s: %v", what, err)
	}
	took := time.Since(began)
	p.Trial.Took(what, took)
	p.Trial.Promise(what, changeMost)
	p.Logf("%s: %.1f s", what, took.Seconds())
}

// spec returns the addresses that the cluster's spec requests.
func (p *pairTrial) spec() (api, ingress []configv1.IP, err error) {
	var infra configv1.Infrastructure
	if err := p.API.Get(p.Context(), client.ObjectKey{Name: "cluster"}, &infra); err != nil {
		return nil, nil, err
	}
	b := infra.Spec.PlatformSpec.BareMetal
	if b == nil {
		return nil, nil, errors.New("the Infrastructure object is of no platform baremetal")
	}
	return b.APIServerInternalIPs, b.IngressIPs, nil
}

// restore makes sure that the second pair is the right one.
func (p *pairTrial) restore() {
	p.Helper()
	api, _, err := p.spec()
	if err != nil {
		p.Fatal(err)
	}
	if len(api) == 2 && string(api[1]) == right.api.String() {
		return
	}
	for _, args := range [][]string{removal, right.words()} {
		if err := p.holdfastVIP(p.Context(), args...); err != nil {
			p.Fatalf("give the site its second pair again: %v", err)
		}
	}
}

// used sends requests to both addresses of a pair that was reported as ready.
// None may fail.
func (p *pairTrial) used(q pair) {
	p.Helper()
	api, ingress := p.apiShape(q.api), load.Shape{
		URL: "http://" + web(q.ingress).String() + "/health", Host: p.hello.Host, Body: "OK", Deadline: *deadline,
	}
	for what, shape := range map[string]load.Shape{"API": api, "ingress": ingress} {
		shape.Rate, shape.Dial = 50, p.Lab.Dial
		l := load.Start(p.Context(), shape)
		err := labsite.Until(p.Context(), 30*time.Second, 100*time.Millisecond, func() error { return l.History().Quiet(0, 100) })
		h := l.Stop()
		if loss := h.Loss(0, l.Since()); err != nil || loss.Failed > 0 {
			p.Errorf("the second pair, %s: %s: %v", what, loss, err)
		}
	}
}

// gone checks that no host has the addresses of a pair any more.
func (p *pairTrial) gone(q pair) {
	p.Helper()
	for _, a := range []netip.Addr{q.api, q.ingress} {
		if list := p.Lab.Holders(a); len(list) > 0 {
			p.Errorf("%s was removed, and %v has it", a, list)
		}
	}
}

// TestTheSecondPairIsAddedUsedRemovedAndCorrected follows an administrator who
// mistypes the addresses and corrects them.
func TestTheSecondPairIsAddedUsedRemovedAndCorrected(t *testing.T) {
	onPairs(t, "second pair of VIPs", 3, firstPair, func(p *pairTrial) {
		since := p.Now()
		p.change("remove", removal...)
		p.gone(right)
		p.change("add", mistyped.words()...)
		p.used(mistyped)
		p.change("remove the mistyped", removal...)
		p.gone(mistyped)
		p.change("add the corrected", right.words()...)
		p.used(right)
		p.NothingFailed("second pair", since, p.first...)
	})
}

// TestAHostThatIsOffCatchesUp changes the pair while one host is shut down
// cleanly.
func TestAHostThatIsOffCatchesUp(t *testing.T) {
	onPairs(t, "second pair of VIPs, one host off", 2, firstPair, func(p *pairTrial) {
		host, err := p.Holder(p.Lab.Layout.IngressVIPs[0])
		if err != nil {
			p.Fatal(err)
		}
		off := p.other(host) // the application runs on the holder
		p.leave(off)
		p.Steady("with one host off")
		since := p.Now()
		p.change("remove", removal...)
		p.change("add", mistyped.words()...)
		p.used(mistyped)
		p.NothingFailed("one host off", since, p.first...)
		back := time.Now()
		p.Mend(off, lab.FaultShutdown)
		p.BootedAgain(off, back)
		p.Eventually(labsite.WholeWithin, "the site is whole", func() error { return p.Whole(p.Context()) })
		whole := time.Now()
		p.Eventually(changeWithin, off+" has the pair too", func() error { return p.holdfastVIP(p.Context(), "check") })
		p.Trial.Took("caught up once it was ready", time.Since(whole))
		if n, err := p.Network(p.Context(), off); err != nil || len(n.View.Settings.APIVIPs) != 2 || n.View.Settings.APIVIPs[1] != mistyped.api {
			p.Errorf("%s goes by %v (%v)", off, n.View.Settings.APIVIPs, err)
		}
		p.used(mistyped)
	})
}

// leave shuts a host down cleanly, and waits until it is off and the cluster
// knows that, because a change waits for every host that is reported as ready.
func (p *pairTrial) leave(host string) {
	p.Helper()
	p.Inject(lab.Fault{Kind: lab.FaultShutdown, Host: host})
	p.Eventually(3*time.Minute, host+" is off", func() error {
		st, err := p.PowerOf(p.Context(), host)
		if err == nil && st.Power != lab.PowerOff {
			err = fmt.Errorf("its power is %s", st.Power)
		}
		return err
	})
	p.ingressIsOn(p.other(host))
	p.Eventually(2*time.Minute, "the cluster knows that "+host+" is off", func() error {
		var n corev1.Node
		err := p.API.Get(p.Context(), client.ObjectKey{Name: host}, &n)
		if err == nil && labsite.Ready(&n) {
			err = errors.New("its node is said to be ready")
		}
		return err
	})
}

// broken lists faults in the middle of a change, as soon as the request is
// written. Each returns a function that mends its fault, nil if that mends
// itself.
var broken = []struct {
	name string
	// first names the clients that send 200 requests a second, none of which
	// may fail. No client uses a frozen API: its backlog of a thousand TLS
	// handshakes would take both processors from the routers once it thaws.
	first []string
	do    func(*pairTrial) (mend func())
}{
	{"agents killed", firstPair, (*pairTrial).killAgents},
	{"operator killed", firstPair, func(p *pairTrial) func() { p.killOperator(); return nil }},
	{"API down", []string{firstIngress}, (*pairTrial).stopAPI},
}

func TestTheSecondPairChangesWhateverDiesInTheMiddle(t *testing.T) {
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			onPairs(t, "second pair of VIPs, "+b.name+" in the middle", 3, b.first, func(p *pairTrial) {
				since := p.Now()
				p.changeInTheMiddle("remove", removal, func(api int) bool { return api == 1 }, b.do)
				p.gone(right)
				p.changeInTheMiddle("add", mistyped.words(), func(api int) bool { return api == 2 }, b.do)
				p.used(mistyped)
				p.NothingFailed(b.name, since, p.first...)
			})
		})
	}
}

// changeInTheMiddle begins a change, breaks something once the request is
// written, and waits until the change is complete. If the command gave up it is
// run again, because it may be interrupted and repeated.
func (p *pairTrial) changeInTheMiddle(what string, args []string, written func(api int) bool, do func(*pairTrial) func()) {
	p.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(p.Context(), changeWithin)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- p.holdfastVIP(ctx, args...) }()
	err := labsite.Until(ctx, time.Minute, 20*time.Millisecond, func() error {
		api, _, err := p.spec()
		if err == nil && !written(len(api)) {
			err = fmt.Errorf("the spec has %v", api)
		}
		return err
	})
	if err != nil {
		p.Fatalf("%s was not begun: %v", what, errors.Join(err, <-done))
	}
	if mend := do(p); mend != nil {
		mend()
	}
	if err := <-done; err != nil {
		p.Logf("%s gave up, and is given again: %v", what, err)
		p.Eventually(changeWithin, what, func() error { return p.holdfastVIP(p.Context(), args...) })
	}
	p.Trial.Took(what, time.Since(began))
}

func (p *pairTrial) killAgents() func() {
	p.Helper()
	for _, h := range p.ControlPlanes() {
		p.Inject(lab.Fault{Kind: lab.FaultProcessKill, Host: h, Process: "holdfast-agent"})
	}
	return nil
}

// stopAPI freezes all API servers. The function that it returns waits until
// clients of the ingress VIP have got answers for five seconds, which needs no
// API, and thaws the servers.
func (p *pairTrial) stopAPI() func() {
	p.Helper()
	for _, h := range p.ControlPlanes() {
		p.Inject(lab.Fault{Kind: lab.FaultProcessStop, Host: h, Process: "kube-apiserver"})
	}
	down := time.Now()
	return func() {
		p.Helper()
		p.Eventually(time.Minute, "people are answered without an API", func() error { return p.Quiet(firstIngress, down, 5**rate) })
		for _, h := range p.ControlPlanes() {
			p.Mend(h, lab.FaultProcessStop)
		}
	}
}
