// Package life_test has a site live through what years bring, in minutes:
// certificates that end, and configurations of hosts that change, while clients
// send 200 requests a second, one reads with a token, and others write. It needs root
// and a built release; hack/test life calls it.
package life_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/holdfast/holdfast/internal/decide/ingress"
	"github.com/holdfast/holdfast/internal/lab"
	"github.com/holdfast/holdfast/test/labsite"
	"github.com/holdfast/holdfast/test/labsite/load"
	"github.com/holdfast/holdfast/test/twonode/client"
)

var (
	labName  = flag.String("lab", "", "the lab; it is brought up if need be. Without a name nothing runs")
	keep     = flag.Bool("keep", false, "leave the lab up at the end")
	program  = flag.String("holdfast", "../../_output/bin/holdfast", "the holdfast program")
	planes   = flag.Int("control-planes", 2, "control planes of a new lab")
	workers  = flag.Int("workers", 1, "workers of a new lab")
	life     = flag.Duration("certificates", 10*time.Minute, "life of the certificates of a new lab")
	renewals = flag.Int("renewals", 5, "how many renewals of each certificate are waited for")
	quota    = flag.Int("etcd-quota", 0, "etcd's quota of a new lab in GiB; 0 for etcd's own")
	rate     = flag.Int("rate", load.DefaultRate, "requests a second of each client")
	output   = flag.String("output", "../../_output/life", "where results and artefacts go")
)

// site is the lab, with an access that outlives its certificates.
type site struct {
	*labsite.Site
	access *rest.Config
}

// theSite is brought up once for all tests.
var theSite *site

func TestMain(m *testing.M) {
	flag.Parse()
	ctrl.SetLogger(logr.Discard()) // only libraries use this logger, and their messages do not matter
	code := m.Run()
	if theSite != nil && !*keep {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		if err := theSite.Down(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
		cancel()
	}
	os.Exit(code)
}

// open returns the running lab.
func open(t *testing.T) *site {
	t.Helper()
	if *labName == "" {
		t.Skip("a site lives through years by 'hack/test life'")
	}
	if theSite != nil {
		return theSite
	}
	started := time.Now()
	up := []string{
		fmt.Sprintf("--control-planes=%d", *planes), fmt.Sprintf("--workers=%d", *workers), "--post-delay=5s", "--certificate-validity=" + life.String(),
		fmt.Sprintf("--etcd-quota=%d", *quota),
	}
	if dir, _ := plugged(); dir != "" {
		up = append(up, "--stick="+dir)
	}
	s, err := labsite.Open(t.Context(), labsite.Options{Name: *labName, Program: *program, Up: up})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("lab %s is up after %.0f s", *labName, time.Since(started).Seconds())
	theSite = &site{Site: s}
	if theSite.access, err = s.Token(t.Context(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	return theSite
}

// workersOf returns the names of the hosts that are no control planes.
func workersOf(s *labsite.Site) []string {
	var out []string
	for _, h := range s.Lab.Layout.Hosts {
		if !h.Role.ControlPlane() {
			out = append(out, h.Name)
		}
	}
	return out
}

// Names of the clients.
const (
	api         = "API VIP"
	apiReads    = "API VIP, authenticated reads"
	application = "application"
)

// hello is the name of the application, which has replicas.
const (
	hello    = "hello"
	replicas = 2
)

// trial is a case with writers beside its clients.
type trial struct {
	*labsite.Case
	access *rest.Config
	// kubeconfig is the path of one for a person's commands.
	kubeconfig string

	// rec has what was written through API servers, etcdRec what was written to etcd itself.
	rec, etcdRec         *client.Recorder
	writers, etcdWriters *client.Load
	began                time.Time
	// log is where the lab's log ended when it began.
	log int64
}

// play plays a scenario once, while clients send requests and others write.
func play(t *testing.T, scenario string, do func(*trial)) {
	t.Helper()
	s := open(t)
	app := s.Deploy(t, labsite.App{
		Name: hello, Host: "hello.apps." + s.Lab.Layout.ClusterDomain(), Controller: ingress.DefaultName, Replicas: replicas, Graceful: true,
	})
	plan := labsite.Plan{Scenario: scenario, Times: 1, Families: "v4", Output: *output}
	labsite.Play(t, s.Site, plan, func(c *labsite.Case) {
		tr := &trial{Case: c, access: s.access, kubeconfig: s.person(c.T)}
		alive := s.LifeOf(tr.front(s.Lab.Layout.APIVIPs))
		alive.Rate, alive.Deadline = *rate, answeredWithin
		c.Ask(api, alive)
		c.Ask(apiReads, tr.readsOf(tr.front(s.Lab.Layout.APIVIPs)))
		c.Ask(application, load.Shape{
			URL: "http://" + netip.AddrPortFrom(tr.front(s.Lab.Layout.IngressVIPs), 80).String() + "/health", Host: app.Host, Body: "OK",
			Rate: *rate, Deadline: answeredWithin,
		})
		c.Steady("before")
		tr.write()
		do(tr)
		c.Steady("after")
		c.Eventually(labsite.WholeWithin, "the site is whole while clients still write", func() error { return s.Whole(t.Context()) })
		tr.endWriters()
	})
}

// leaveOut says in the results that a scenario is not played on this site, and why.
func leaveOut(t *testing.T, scenario, why string) {
	t.Helper()
	t.Run(scenario, func(t *testing.T) { t.Skip(why) })
}

// front returns the address at which clients reach the API or routers: the first
// virtual IP, or that of the only control plane, which needs none.
func (tr *trial) front(vips []netip.Addr) netip.Addr {
	if len(vips) > 0 {
		return vips[0]
	}
	return tr.Address(tr.ControlPlanes()[0], lab.V4)
}

// write starts clients that write through the virtual address, through each control plane, and to etcd itself.
func (tr *trial) write() {
	tr.Helper()
	run := fmt.Sprintf("l%d", time.Now().UnixMilli())
	tr.writeAPI(run)
	tr.writeEtcd(run)
	tr.Eventually(30*time.Second, "writes are acknowledged", func() error {
		if tr.rec.Last("vip") == 0 || tr.etcdRec.Last("") == 0 {
			return errors.New("none was")
		}
		return nil
	})
	tr.began = time.Now()
	var err error
	if tr.log, err = tr.LogEnd(); err != nil {
		tr.Fatal(err)
	}
}

func (tr *trial) writeAPI(run string) {
	tr.Helper()
	targets := []client.Target{{Name: "vip", Address: net.JoinHostPort(tr.front(tr.Lab.Layout.APIVIPs).String(), "6443")}}
	for _, h := range tr.ControlPlanes() {
		targets = append(targets, client.Target{Name: h, Address: net.JoinHostPort(tr.Address(h, lab.V4).String(), "6443")})
	}
	tr.rec = client.NewRecorder()
	var err error
	shape := client.Shape{Targets: targets, Writers: 2, Pause: 100 * time.Millisecond}
	if tr.writers, err = client.StartAPI(tr.Context(), tr.rec, shape, run, tr.Lab.Dial, tr.access); err != nil {
		tr.Fatal(err)
	}
}

func (tr *trial) writeEtcd(run string) {
	tr.Helper()
	if err := tr.LetIntoEtcd(tr.Context()); err != nil {
		tr.Fatal(err)
	}
	var targets []client.Target
	for _, h := range tr.ControlPlanes() {
		targets = append(targets, client.Target{Name: h, Address: net.JoinHostPort(tr.Address(h, lab.V4).String(), "2379")})
	}
	tr.etcdRec = client.NewRecorder()
	shape := client.Shape{Targets: targets, Pause: 100 * time.Millisecond}
	tr.Eventually(30*time.Second, "etcd lets its clients in", func() (err error) {
		tr.etcdWriters, err = client.StartEtcd(tr.Context(), tr.etcdRec, shape, "/holdfast-test/"+run+"/", tr.Lab.Dial, tr.LiveEtcdKeys(tr.Context()))
		return err
	})
}

// endWriters ends the writers, and checks that no acknowledged write is lost.
func (tr *trial) endWriters() {
	tr.Helper()
	if err := errors.Join(tr.writers.Stop(tr.Context()), tr.etcdWriters.Stop(tr.Context())); err != nil {
		tr.Error(err)
	}
	h, etcd := tr.rec.Copy(), tr.etcdRec.Copy()
	if err := errors.Join(client.Check(h), client.Check(etcd)); err != nil {
		tr.Errorf("the cluster broke its word: %v", err)
	}
	tr.Logf("%d writes and reads through API servers, %d of etcd itself", len(h.Ops), len(etcd.Ops))
	for _, q := range []struct {
		figure string
		gap    client.Gap
	}{
		{noWriteAtAll, h.Gap("", tr.rec.At(tr.began), h.End())},
		{noWriteAtVIP, h.Gap("vip", tr.rec.At(tr.began), h.End())},
		{noWriteToEtcd, etcd.Gap("", tr.etcdRec.At(tr.began), etcd.End())},
	} {
		tr.Trial.Took(q.figure, q.gap.Length)
		tr.Logf("longest time without an acknowledged write: %s for %.1f s", q.figure, q.gap.Length.Seconds())
	}
}

// Figures of the writers: the longest time in the trial without an acknowledged write.
const (
	noWriteAtAll  = "no write by any way"
	noWriteAtVIP  = "no write at the virtual address"
	noWriteToEtcd = "no write to etcd itself"
)

// shortOutage is the shortest time without a write that is worth a line.
const shortOutage = 600 * time.Millisecond

// outages writes to the log when nobody could write, by each way and by any.
func (tr *trial) outages(since time.Time) {
	tr.Helper()
	h := tr.rec.Copy()
	for _, way := range append([]string{"", "vip"}, tr.ControlPlanes()...) {
		for from := tr.rec.At(since); ; {
			o := h.Outage(way, from, h.End(), shortOutage)
			if o.Length == 0 {
				break
			}
			tr.Logf("no write by %q from %s for %.1f s%s", way, h.Began.Add(o.From).UTC().Format("15:04:05.0"), o.Length.Seconds(), errorsIn(h, way, o.From, o.Until))
			from = o.Until
		}
	}
}

// errorsIn lists the errors of the writes by a way that ended between two moments.
func errorsIn(h client.History, way string, from, until time.Duration) string {
	var list strings.Builder
	for _, op := range h.Ops {
		if op.Kind == client.Write && op.Error != "" && (way == "" || op.Endpoint == way) && op.End >= from && op.End <= until && list.Len() < 400 {
			fmt.Fprintf(&list, "; after %.1f s by %s: %s", (op.End - op.Start).Seconds(), op.Endpoint, op.Error[max(0, len(op.Error)-50):])
		}
	}
	return list.String()
}

// noWriteGapAbove checks the longest time in which nobody could write, and that reads waited
// for no more than that.
func (tr *trial) noWriteGapAbove(most time.Duration) {
	tr.Helper()
	tr.Trial.Promise(noWriteAtVIP, most)
	tr.noReadGapAbove(most)
	h := tr.rec.Copy()
	if gap := h.Gap("vip", tr.rec.At(tr.began), h.End()); gap.Length > most {
		tr.Errorf("nobody could write at the virtual address for %.1f s, want at most %s", gap.Length.Seconds(), most)
	}
}

// nobodyFenced checks that no host was fenced since the beginning, and that no BMC was
// asked to cut a power: a host that is off now tells of no fence, and a fence that failed
// is none. A power cut of the lab asks no BMC.
func (tr *trial) nobodyFenced() {
	tr.Helper()
	if list, err := tr.Fenced(tr.Context(), tr.began); err != nil || len(list) > 0 {
		tr.Errorf("fenced: %v (%v), want nobody", list, err)
	}
	if cuts, err := tr.Resets(tr.log, labsite.ForceOff); err != nil || len(cuts) > 0 {
		tr.Errorf("BMCs were asked to cut the power: %v (%v), want none", cuts, err)
	}
}
