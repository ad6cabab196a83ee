package cli

import (
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/adapter/kube"
	"github.com/holdfast/holdfast/internal/adapter/kube/vipobject"
	"github.com/holdfast/holdfast/internal/adapter/observe/settings"
	"github.com/holdfast/holdfast/internal/cli/command"
	decide "github.com/holdfast/holdfast/internal/decide/readdress"
	"github.com/holdfast/holdfast/internal/decide/replace"
	install "github.com/holdfast/holdfast/internal/install/readdress"
	"github.com/holdfast/holdfast/internal/model/config"
	"github.com/holdfast/holdfast/internal/model/site"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/testkit/sitetest"
)

func TestAllMistakesInTheAddressesOfHostsAreToldAtOnce(t *testing.T) {
	f := readdressFlags{addresses: []string{"cp-1", "=192.0.2.1", "cp-2=192.0.2.x", "cp-3=192.0.2.3", "cp-3=192.0.2.4"}}
	_, err := f.hosts()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{`--address "cp-1": must be NAME=ADDRESS`, `--address "=192.0.2.1": must be NAME`, `"192.0.2.x" is no IP address`, "cp-3 is named twice"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
	f.addresses = []string{"cp-1=192.0.2.1,2001:db8::1"}
	got, err := f.hosts()
	if err != nil || len(got["cp-1"]) != 2 || got["cp-1"][1] != netip.MustParseAddr("2001:db8::1") {
		t.Errorf("%v, %v", got, err)
	}
}

func TestAMoveIsShownHostByHostAndItsEndIsSuccess(t *testing.T) {
	plan := &decide.Plan{ID: "m1", By: "ada", At: time.Unix(0, 0).UTC()}
	r := moveReport{Plan: plan, Hosts: []movedHost{
		{"cp-1", install.Doing{Plan: "m1", At: decide.To, Words: "waits until etcd answers"}},
		{"cp-2", install.Doing{Plan: "m1", At: decide.From, Words: "gives the files other addresses", Problem: "disk full"}},
		{"worker-1", install.Doing{}},
		{"worker-2", install.Doing{Plan: "m1", At: decide.To, Over: true}},
	}}
	var out strings.Builder
	err := r.print(&out, "text")
	if code := command.ExitCode(err); code != 4 {
		t.Errorf("exit code %d, %v", code, err)
	}
	const want = `move m1, announced by ada at 1970-01-01T00:00:00Z
HOST      HAS            STATE
cp-1      new addresses  waits until etcd answers
cp-2      old addresses  gives the files other addresses: disk full
worker-1  old addresses  says nothing of it yet
worker-2  new addresses  the move is over
`
	if out.String() != want {
		t.Errorf("got\n%s", out.String())
	}
	late, begun := r.without("m2")
	if len(late) != 4 || begun != "cp-1" {
		t.Errorf("another plan: late %v, begun %q", late, begun)
	}
	for i := range r.Hosts {
		r.Hosts[i].Over = true
	}
	if err := r.print(&strings.Builder{}, "json"); err != nil {
		t.Error(err)
	}
	alone := moveReport{Hosts: []movedHost{{"cp-1", install.Doing{}}, {"cp-2", install.Doing{Plan: "m3", Local: true, At: decide.From, Words: "the move is announced"}}}}
	out.Reset()
	err = alone.print(&out, "text")
	if code := command.ExitCode(err); code != 4 || out.String() != `no move is announced
HOST  HAS            STATE
cp-2  old addresses  has a plan that was given to it alone: the move is announced
` {
		t.Errorf("a plan of one host: exit code %d, got\n%s", code, out.String())
	}
	alone.Hosts[1].Over = true
	if err := alone.print(&out, "text"); err != nil {
		t.Errorf("a plan of one host that is over: %v", err)
	}
	if err := (moveReport{}).print(&out, "text"); err != nil || !strings.HasSuffix(out.String(), "no move is announced\n") {
		t.Errorf("%v: %s", err, out.String())
	}
}

func TestNoMoveIsAnnouncedWhileControlPlanesChange(t *testing.T) {
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: replace.LockNamespace, Name: replace.LockName}, Data: map[string]string{replace.LockKey: "p1"}}
	upgrade := &configv1.ClusterVersion{ObjectMeta: metav1.ObjectMeta{Name: "version"}}
	upgrade.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.OperatorProgressing, Status: configv1.ConditionTrue, Message: "cp-1 is next"}}
	rests := upgrade.DeepCopy()
	rests.Status.Conditions[0].Status = configv1.ConditionFalse
	for sentence, c := range map[string]struct {
		objects []client.Object
		why     string
	}{
		"nothing is under way":   {[]client.Object{rests}, ""},
		"a replacement is":       {[]client.Object{rests, lock}, "the plan p1 changes the control planes"},
		"an upgrade is":          {[]client.Object{upgrade}, "an upgrade goes on (cp-1 is next)"},
		"there is no such thing": {nil, ""},
	} {
		a := &moveAccess{fake.NewClientBuilder().WithScheme(scheme).WithObjects(c.objects...).Build()}
		err := a.free(t.Context())
		if (err == nil) != (c.why == "") || err != nil && (!strings.Contains(err.Error(), c.why) || command.ExitCode(err) != command.ExitRefused) {
			t.Errorf("%s: %v", sentence, err)
		}
	}
}

func TestAHostThatCannotMoveIsNamedWithTheFileThatItLacks(t *testing.T) {
	r := moveReport{Hosts: []movedHost{
		{"cp-1", install.Doing{Plan: "m1", Lacks: "open /etc/kubernetes/pki/ca.key: no such file"}},
		{"cp-2", install.Doing{Plan: "m1"}},
	}}
	if got := strings.Join(r.unable(), ", "); got != "cp-1, which cannot move: open /etc/kubernetes/pki/ca.key: no such file" {
		t.Error(got)
	}
}

// TestAPlanOfOneHostIsTakenBackThere: the API announces none, so nothing else drops it.
func TestAPlanOfOneHostIsTakenBackThere(t *testing.T) {
	r := moveReport{Hosts: []movedHost{{"cp-1", install.Doing{Plan: "m1", Local: true}}, {"cp-2", install.Doing{Plan: "m1"}}, {"cp-3", install.Doing{}}}}
	if got := r.with(); len(got) != 2 || !strings.Contains(got[0], "sudo holdfast site readdress withdraw --here") || got[1] != "cp-2" {
		t.Errorf("%q", got)
	}
	announced := decide.Announced(nil)
	for sentence, c := range map[string]struct {
		plan    *decide.Plan
		journal decide.Journal
		code    int
		stays   bool
	}{
		"there is none":         {nil, announced, ExitOK, false},
		"a plan of this host":   {&decide.Plan{ID: "m1", Local: true}, announced, ExitOK, false},
		"one that is announced": {&decide.Plan{ID: "m1"}, announced, command.ExitRefused, true},
		"one that has begun":    {&decide.Plan{ID: "m1", Local: true}, announced.Begun(decide.To, nil), command.ExitRefused, true},
	} {
		store := install.Store{Root: t.TempDir()}
		if c.plan != nil {
			if err := store.Put(*c.plan, c.journal); err != nil {
				t.Fatal(err)
			}
		}
		var out strings.Builder
		err := withdrawHere(Streams{Err: &out}, store)
		plan, _, unread := store.Load()
		if command.ExitCode(err) != c.code || unread != nil || (plan != nil) != c.stays {
			t.Errorf("%s: %v, %q, the plan is %+v", sentence, err, out.String(), plan)
		}
	}
}

// TestOfAMoveAndAPlanThatBeginAtOnceOneStepsBack: a plan takes the lock of all plans before it looks for an
// announcement again, so the announcement looks for the lock again, too.
func TestOfAMoveAndAPlanThatBeginAtOnceOneStepsBack(t *testing.T) {
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	ended := map[string]string{kube.ReaddressedAnnotation: `{"plan":"m0","at":"to"}`}
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster", Annotations: ended}}
	taken := false
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(infra).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if !taken {
				taken = true
				lock := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: replace.LockNamespace, Name: replace.LockName}, Data: map[string]string{replace.LockKey: "p1"}}
				if err := c.Create(ctx, lock); err != nil {
					return err
				}
			}
			return c.Patch(ctx, o, p, opts...)
		},
	}).Build()
	var out strings.Builder
	m := &move{readdressFlags: readdressFlags{yes: true, timeout: time.Second}, streams: Streams{Out: &out, Err: &out}, plan: decide.Plan{ID: "m1"}, access: &moveAccess{c}, backup: backupFirst{without: true}}
	err = m.announce(t.Context())
	if command.ExitCode(err) != command.ExitRefused || !strings.Contains(err.Error(), "the plan p1 changes the control planes") {
		t.Error(err)
	}
	if now, err := m.access.infrastructure(t.Context()); err != nil || len(now.Annotations) > 0 {
		t.Errorf("%v, %v", now.Annotations, err)
	}
}

// TestNoMoveIsAnnouncedWhileVirtualIPsChange: its plan has those of this moment, and brings them.
func TestNoMoveIsAnnouncedWhileVirtualIPsChange(t *testing.T) {
	scheme, err := kube.NewScheme()
	if err != nil {
		t.Fatal(err)
	}
	for wished, refused := range map[configv1.IP]bool{"": false, "10.98.0.5": false, "10.98.0.7": true} {
		infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		infra.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.BareMetalPlatformType, BareMetal: &configv1.BareMetalPlatformStatus{
			APIServerInternalIPs: []string{"10.98.0.5"}, IngressIPs: []string{"10.98.0.6"},
		}}
		if wished != "" {
			infra.Spec.PlatformSpec.BareMetal = &configv1.BareMetalPlatformSpec{APIServerInternalIPs: []configv1.IP{wished}, IngressIPs: []configv1.IP{"10.98.0.6"}}
		}
		var out strings.Builder
		a := &moveAccess{fake.NewClientBuilder().WithScheme(scheme).WithObjects(infra).Build()}
		m := &move{readdressFlags: readdressFlags{yes: true, timeout: time.Second}, streams: Streams{Out: &out, Err: &out}, plan: decide.Plan{ID: "m1"}, access: a, backup: backupFirst{without: true}}
		err := m.announce(t.Context())
		if is := command.ExitCode(err) == command.ExitRefused && strings.Contains(err.Error(), "holdfast vip check"); is != refused {
			t.Errorf("wished is %q: %v", wished, err)
		}
		now, err := a.infrastructure(t.Context())
		if err != nil || (now.Annotations[kube.ReaddressAnnotation] == "") != refused {
			t.Errorf("wished is %q: %v, %v", wished, now.Annotations, err)
		}
		if _, s, err := vipobject.Gather(t.Context(), a.client, "operator"); err != nil || s.Moves == refused {
			t.Errorf("wished is %q: whoever changes virtual IPs sees a move: %t, %v", wished, s.Moves, err)
		}
	}
}

// TestAPlanThatIsGivenToOneHostIsTheSameOnAWorker, which has neither a key of join secrets nor the BMCs.
func TestAPlanThatIsGivenToOneHostIsTheSameOnAWorker(t *testing.T) {
	at := func(network string) map[string][]netip.Addr {
		out := map[string][]netip.Addr{}
		for name, last := range map[string]string{"cp-1": "11", "cp-2": "12", "w-1": "21"} {
			out[name] = []netip.Addr{netip.MustParseAddr("10." + network + ".0." + last), netip.MustParseAddr("fd" + network + "::" + last)}
		}
		return out
	}
	const secrets = "pullSecret: '{\"auths\": {\"r.example.test\": {\"auth\": \"dXNlcjpTM2NyM3QtcHVsbA==\"}}}'\n"
	text := sitetest.TwoDual + secrets
	moved := strings.NewReplacer("10.98.0.", "10.77.0.", "fd98::", "fd77::", "10.99.0.112", "10.66.0.112").Replace(text)
	nodes, err := json.Marshal([]state.Node{{Name: "cp-1", Addresses: at("98")["cp-1"]}, {Name: "cp-2", Addresses: at("98")["cp-2"]}, {Name: "w-1", Addresses: at("98")["w-1"]}})
	if err != nil {
		t.Fatal(err)
	}
	plan := func(role state.Role, text string) (decide.Plan, error) {
		t.Helper()
		data, err := sitetest.New(t, sitetest.TwoDual+secrets).For(role).Settled().Marshal()
		if err != nil {
			t.Fatal(err)
		}
		root := hostWith(t, map[string][]byte{site.Path: data, state.NodesPath: nodes})
		file, err := config.Parse([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		have, hosts, err := here(root, file)
		if err != nil {
			t.Fatal(err)
		}
		return decide.New(have, file, hosts, at("77"))
	}
	master, err := plan(state.RoleMaster, moved)
	if err != nil || master.To.BMCs["cp-2"] == "" {
		t.Fatalf("%+v, %v", master, err)
	}
	worker, err := plan(state.RoleWorker, moved)
	if err != nil || !worker.Same(master) || decide.LocalID(worker.To) != decide.LocalID(master.To) || len(worker.To.BMCs) > 0 {
		t.Errorf("%+v, %v, of a control plane %+v", worker, err, master)
	}
	if _, err := plan(state.RoleWorker, strings.Replace(moved, "baseDomain: example.test", "baseDomain: example.org", 1)); err == nil || !strings.Contains(err.Error(), "baseDomain") {
		t.Errorf("another site's file: %v", err)
	}
}

// hostWith returns the root of a host with files.
func hostWith(t *testing.T, files map[string][]byte) string {
	t.Helper()
	root := t.TempDir()
	for path, data := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestAPlanThatIsGivenToOneHostKnowsTheVIPsOfToday: holdfast vip adds a pair to the cluster and to what
// hosts keep of it, and not to the site's file.
func TestAPlanThatIsGivenToOneHostKnowsTheVIPsOfToday(t *testing.T) {
	addrs := func(texts ...string) (out []netip.Addr) {
		for _, text := range texts {
			out = append(out, netip.MustParseAddr(text))
		}
		return out
	}
	nodes, err := json.Marshal([]state.Node{{Name: "cp-1", Addresses: addrs("10.98.0.11", "fd98::11")}, {Name: "cp-2", Addresses: addrs("10.98.0.12", "fd98::12")}})
	if err != nil {
		t.Fatal(err)
	}
	now, err := json.Marshal(kube.Infrastructure{BareMetal: true, APIVIPs: addrs("10.98.0.5", "fd98::5"), IngressVIPs: addrs("10.98.0.6", "fd98::6")})
	if err != nil {
		t.Fatal(err)
	}
	installed := strings.NewReplacer(`, "fd98::5"`, "", `, "fd98::6"`, "").Replace(sitetest.TwoDual)
	file, err := config.Parse([]byte(strings.NewReplacer("10.98.0.", "10.77.0.", "fd98::", "fd77::").Replace(sitetest.TwoDual)))
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []state.Role{state.RoleMaster, state.RoleWorker} {
		data, err := sitetest.New(t, installed).For(role).Settled().Marshal()
		if err != nil {
			t.Fatal(err)
		}
		have, hosts, err := here(hostWith(t, map[string][]byte{site.Path: data, state.NodesPath: nodes, settings.Path: now}), file)
		if err != nil {
			t.Fatal(err)
		}
		p, err := decide.New(have, file, hosts, map[string][]netip.Addr{"cp-1": addrs("10.77.0.11", "fd77::11"), "cp-2": addrs("10.77.0.12", "fd77::12")})
		if err != nil || strings.Join(p.From.APIVIPs, " ") != "10.98.0.5 fd98::5" || strings.Join(p.From.IngressVIPs, " ") != "10.98.0.6 fd98::6" {
			t.Errorf("%s: from %+v, %v", role, p.From, err)
		}
	}
}
