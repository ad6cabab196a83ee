package status

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	etcdv1 "github.com/openshift/api/etcd/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	operatorv1 "github.com/openshift/api/operator/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/holdfast/holdfast/internal/adapter/etcd"
	"github.com/holdfast/holdfast/internal/adapter/host"
	"github.com/holdfast/holdfast/internal/adapter/records"
	words "github.com/holdfast/holdfast/internal/decide/explain"
	"github.com/holdfast/holdfast/internal/decide/hostreport"
	decide "github.com/holdfast/holdfast/internal/decide/incident"
	"github.com/holdfast/holdfast/internal/decide/pacemakerstatus"
	"github.com/holdfast/holdfast/internal/decide/standing"
	"github.com/holdfast/holdfast/internal/model/state"
	"github.com/holdfast/holdfast/internal/report/incident"
	"github.com/holdfast/holdfast/internal/report/observer"
	"github.com/holdfast/holdfast/internal/testkit/porttest"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func node(name string, ready corev1.ConditionStatus, holds ...string) *corev1.Node {
	var report state.VIPReport
	for _, h := range holds {
		report.Holds = append(report.Holds, netip.MustParseAddr(h))
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{state.LabelControlPlane: "", state.LabelWorker: ""},
			Annotations: map[string]string{state.AnnotationVIPs: state.FormatAnnotation(report)},
		},
		Status: corev1.NodeStatus{
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.98.0.1" + name[len(name)-1:]}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, Message: "it stopped posting"}},
		},
	}
}

func objects() []client.Object {
	infra := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	infra.Status = configv1.InfrastructureStatus{
		InfrastructureName: "store-17-x7k", APIServerURL: "https://api.store-17.example.com:6443", ControlPlaneTopology: configv1.DualReplicaTopologyMode,
		PlatformStatus: &configv1.PlatformStatus{BareMetal: &configv1.BareMetalPlatformStatus{
			APIServerInternalIPs: []string{"10.98.0.5", "fd98::5"}, IngressIPs: []string{"10.98.0.6"},
		}},
	}
	pacemaker := &etcdv1.PacemakerCluster{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	pacemaker.Status.LastUpdated = metav1.NewTime(time.Now().Truncate(time.Second))
	etcd := &operatorv1.Etcd{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	etcd.Status.Conditions = []operatorv1.OperatorCondition{{Type: "ExternalEtcdHasCompletedTransition", Status: operatorv1.ConditionTrue}}
	bad := &configv1.ClusterOperator{ObjectMeta: metav1.ObjectMeta{Name: "network"}}
	bad.Status.Conditions = []configv1.ClusterOperatorStatusCondition{{Type: configv1.OperatorDegraded, Status: configv1.ConditionTrue, Message: "cp-2 does not answer\nat all"}}
	return []client.Object{node("cp-1", corev1.ConditionTrue, "10.98.0.5", "fd98::5"), node("cp-2", corev1.ConditionFalse, "10.98.0.6"), infra, pacemaker, etcd, bad}
}

func scheme(t *testing.T) *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, coordinationv1.AddToScheme, corev1.AddToScheme, configv1.Install, etcdv1.Install, mcfgv1.Install, operatorv1.Install} {
		must(t, add(s))
	}
	return s
}

func TestTheAPITellsHostsAddressesHoldersAndWhatIsNotWell(t *testing.T) {
	api := &API{Name: "API", Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects()...).Build(), Now: time.Now}
	f := (&Gatherer{Sources: []Source{api}, Now: time.Now}).Gather(t.Context())
	if f.Cluster != "store-17.example.com" || f.ControlPlanes.Value != 2 || len(f.Hosts) != 2 || len(f.VIPs) != 3 {
		t.Fatalf("%+v", f)
	}
	for i, want := range []string{"cp-1", "cp-1", "cp-2"} {
		if h := f.VIPs[i].Holders; !h.Known || !slices.Equal(h.Value, []string{want}) {
			t.Errorf("%s: %+v", f.VIPs[i].Address, h)
		}
	}
	if k := f.Hosts[1].Kubelet; !k.Known || k.Value.Ready || k.Value.Why != "it stopped posting" {
		t.Errorf("%+v", k)
	}
	if !f.SetUp.Value.Done || !f.Pacemaker.Known || f.Sources[0].Failed != "" {
		t.Errorf("%+v %+v %+v", f.SetUp, f.Pacemaker, f.Sources)
	}
	if o := f.Operators.Value; len(o) != 1 || o[0].Why != "cp-2 does not answer" {
		t.Errorf("%+v", o)
	}
}

func TestTheAPIHasRecordsFencesAndIncidentsAsHostsShowThem(t *testing.T) {
	at := time.Now().Add(-time.Hour).Truncate(time.Second)
	own := []decide.Record{
		{Host: "cp-1", At: at.Add(-time.Hour), Kind: decide.Recorded, State: state.EtcdPair, Seq: 4},
		{Host: "cp-1", At: at, Kind: decide.Members, Members: []string{"cp-1"}, Ring: 8},
		{Host: "cp-1", At: at.Add(2 * time.Second), Kind: decide.Fenced, Target: "cp-2", OK: true, Took: 1300 * time.Millisecond},
		{Host: "cp-1", At: at.Add(3 * time.Second), Kind: decide.Recorded, State: state.EtcdSole, Seq: 5},
	}
	data, err := incident.Published{Records: own}.Encode()
	must(t, err)
	shown := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: incident.Namespace, Name: incident.ConfigMap("cp-1"), Labels: map[string]string{incident.Label: ""}}, Data: data}
	api := &API{Name: "API", Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(append(objects(), shown)...).Build(), Now: time.Now}
	f := api.Gather(t.Context())
	slices.SortFunc(f.Hosts, func(a, b standing.Host) int { return strings.Compare(a.Name, b.Name) })
	if r := f.Hosts[0].Record; r.Value.State != state.EtcdSole || r.From != "cp-1, in the API" {
		t.Errorf("%+v", r)
	}
	if l := f.Hosts[1].LastFence.Value; !l.Off || l.Took != 1300*time.Millisecond || l.By != "cp-1" {
		t.Errorf("%+v", l)
	}
	if i := f.Incidents; !i.Known || len(i.Value) != 1 || i.Value[0].Summary == "" {
		t.Errorf("%+v", i)
	}
}

func TestWhatMayNotBeReadIsALimitAndNotSilence(t *testing.T) {
	refuse := interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, pods := list.(*corev1.PodList); pods {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		}
		return c.List(ctx, list, opts...)
	}}
	api := &API{Name: "API", Reader: fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects()...).WithInterceptorFuncs(refuse).Build(), Now: time.Now}
	f := api.Gather(t.Context())
	if s := f.Sources[0]; s.Failed != "" || len(s.Limits) != 1 || !strings.Contains(s.Limits[0], "etcd's pods") || len(f.Hosts) != 2 {
		t.Errorf("%+v", s)
	}
}

func TestItAnswersWithinTwoSecondsThoughTheAPIHangs(t *testing.T) {
	hang := make(chan struct{})
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(hang)
	api, err := OpenAPI(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	must(t, err)
	began := time.Now()
	f := (&Gatherer{Sources: []Source{Below(root(t), "cp-1"), api}, Now: time.Now}).Gather(t.Context())
	if took := time.Since(began); took > 4*time.Second || Limit+graceTime+membersLimit > 2*time.Second { // a test machine has other work
		t.Errorf("it took %s", took)
	}
	if s := f.Sources[1]; !strings.Contains(s.Failed, "no answer within 1.3s") {
		t.Errorf("%+v", s)
	}
	if len(f.Hosts) != 2 {
		t.Errorf("what the host told is lost: %+v", f.Hosts)
	}
}

// client-go's http.Client cancels a late request by a method that a wrapper
// hides, and reported that on the terminal (docs/facts/findings.md#lab, L4).
func TestAnAPIThatHangsIsCancelledWithoutALineOfTheClientsLog(t *testing.T) {
	var log bytes.Buffer
	klog.LogToStderr(false)
	klog.SetOutput(&log)
	t.Cleanup(func() { klog.SetOutput(io.Discard) })
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	defer server.Close()
	api, err := openAPI(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}}, Limit)
	must(t, err)
	(&Gatherer{Sources: []Source{api}, Now: time.Now, Limit: 2 * Limit}).Gather(t.Context()) // the client's own limit ends first
	klog.Flush()
	if log.Len() > 0 {
		t.Errorf("%s", &log)
	}
}

func TestASourceThatNeverReturnsIsNotWaitedFor(t *testing.T) {
	began := time.Now()
	f := (&Gatherer{Sources: []Source{deaf{}}, Now: time.Now, Limit: 50 * time.Millisecond}).Gather(t.Context())
	if took := time.Since(began); took > 4*time.Second {
		t.Errorf("it took %s", took)
	}
	if len(f.Sources) != 1 || f.Sources[0].Failed != "deaf" {
		t.Errorf("%+v", f.Sources)
	}
}

func TestAgesAreToldByTheClusterClock(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", time.Now().Add(-10*time.Minute).UTC().Format(http.TimeFormat))
		http.NotFound(w, r)
	}))
	defer server.Close()
	api, err := OpenAPI(&rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	must(t, err)
	f := (&Gatherer{Sources: []Source{api}, Now: time.Now}).Gather(t.Context())
	if ago := time.Since(f.Now); ago < 9*time.Minute || ago > 11*time.Minute {
		t.Errorf("the cluster's clock is 10 minutes behind, and now is %s ago", ago)
	}
	if l := strings.Join(f.Sources[0].Limits, "\n"); !strings.Contains(l, "ahead of the cluster's") {
		t.Errorf("%q", l)
	}
}

type deaf struct{}

func (deaf) Gather(context.Context) standing.Facts  { select {} }
func (deaf) TimedOut(time.Duration) standing.Source { return standing.Source{Failed: "deaf"} }

func TestARefusedConnectionIsSaidShortly(t *testing.T) {
	api, err := OpenAPI(&rest.Config{Host: "https://" + porttest.Address(t)})
	must(t, err)
	if s := api.Gather(t.Context()).Sources[0]; !strings.HasSuffix(s.Failed, "connect: connection refused") || strings.Contains(s.Failed, "/apis/") {
		t.Errorf("%q", s.Failed)
	}
}

func put(t *testing.T, root, path string, value any) {
	t.Helper()
	data, err := json.Marshal(value)
	must(t, err)
	file := filepath.Join(root, path)
	must(t, os.MkdirAll(filepath.Dir(file), 0o755))
	must(t, os.WriteFile(file, data, 0o600))
}

// root creates the files of a host, cp-1 of two.
func root(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "st") //nolint:usetesting // a socket's path is short
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	at := time.Now()
	vip := netip.MustParseAddr("10.98.0.5")
	put(t, dir, state.NetworkStatusPath, map[string]any{"at": at, "holds": []netip.Addr{vip}, "view": state.NetworkView{
		Settings: state.NetworkSettings{Cluster: "store-17", Domain: "store-17.example.com", ManagedVIPs: true, ControlPlanes: 2, APIVIPs: []netip.Addr{vip}},
		Role:     state.RoleMaster, Host: state.HostFacts{NodeName: "cp-1"},
		Nodes: state.Known([]state.Node{
			{Name: "cp-1", Labels: map[string]string{state.LabelControlPlane: ""}}, {Name: "cp-2", Labels: map[string]string{state.LabelControlPlane: ""}},
		}),
		Claims: []state.VIPClaim{{VIP: vip, By: "aa:bb:cc:dd:ee:ff"}, {VIP: vip, By: "02:00:00:00:00:0c", Host: "cp-2"}},
		Forged: []state.ForgedAdvert{{VIP: vip, As: netip.MustParseAddr("10.98.0.12"), By: "aa:bb:cc:dd:ee:ff"}},
	}})
	put(t, dir, state.LoopsStatusPath, state.LoopsStatus{At: at, Loops: []state.Loop{{Name: "taints", Error: "no API", FailingSince: at.Add(-2 * time.Minute)}}})
	put(t, dir, pacemakerstatus.LivePath, pacemakerstatus.Report{Host: "cp-1", At: at, Status: etcdv1.PacemakerClusterStatus{Nodes: &[]etcdv1.PacemakerClusterNodeStatus{}}})
	put(t, dir, state.FencingHistoryPath, state.FenceEntry{Time: at.Add(-time.Hour), Target: "cp-2", By: "cp-1", Off: true, Phases: state.FencePhases{Total: 1200 * time.Millisecond}})
	return dir
}

// agent answers on a host's socket like the etcd keeper.
func agent(t *testing.T, root string, report state.EtcdReport) {
	t.Helper()
	socket := filepath.Join(root, state.EtcdSocketPath)
	must(t, os.MkdirAll(filepath.Dir(socket), 0o755))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "unix", socket)
	must(t, err)
	server := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(report)
	})}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
}

func TestAHostWithoutAnAPITellsFromItsDaemonsAndFiles(t *testing.T) {
	dir := root(t)
	data, err := os.ReadFile("../../../test/corpus/pacemaker/cases/healthy/cp-1/etcd.json")
	must(t, err)
	var report state.EtcdReport
	must(t, json.Unmarshal(data, &report))
	report.At = time.Now()
	report.Snapshot.Statement = state.Known(state.EtcdStatement{Record: state.EtcdRecord{State: state.EtcdPair, Member: 0xb}, Running: state.Known(true)})
	agent(t, dir, report)
	f := (&Gatherer{Sources: []Source{Below(dir, "cp-1")}, Now: time.Now}).Gather(t.Context())
	if f.Cluster != "store-17.example.com" || len(f.Hosts) != 2 || f.ControlPlanes.Value != 2 || f.Pacemaker.From != "cp-1" {
		t.Fatalf("%+v", f)
	}
	one, two := f.Hosts[0], f.Hosts[1]
	if one.Record.Value.State != state.EtcdPair || !one.Member.Value.Leader || one.Explanation.Value.Service != words.Writes || one.Power.Value != standing.PowerOn {
		t.Errorf("%+v", one)
	}
	if l := one.Loops; !l.Known || len(l.Value) != 1 || l.Value[0].Name != "taints" || two.Loops.Known {
		t.Errorf("%+v, %+v", l, two.Loops)
	}
	if two.Record.Value.State != state.EtcdPair || !state.Is(two.Member.Value.Listed, true) || !strings.Contains(two.Record.From, "in its statement to cp-1") {
		t.Errorf("%+v", two)
	}
	if !two.LastFence.Value.Off || two.LastFence.Value.Took != 1200*time.Millisecond || !two.Verified.Known {
		t.Errorf("%+v", two.LastFence)
	}
	if v := f.VIPs[0]; !slices.Equal(v.Holders.Value, []string{"cp-1"}) || len(v.Claims) != 1 ||
		!slices.Equal(v.Left, []string{"cp-2"}) || !slices.Equal(v.Forged, []string{"aa:bb:cc:dd:ee:ff in the name of 10.98.0.12"}) {
		t.Errorf("%+v", v)
	}
	if v := standing.Describe(f); v.Sources[0].Text == "" || v.Redundancy.Survives == standing.Yes {
		t.Errorf("%+v", v) // Pacemaker there reports no nodes
	}
}

func TestARecordOnTheDiskIsReadWhereTheAgentDoesNotAnswer(t *testing.T) {
	dir := root(t)
	must(t, records.Files{Root: dir}.WriteRecord(state.EtcdRecord{State: state.EtcdSole, Seq: 4, Cluster: 1, Member: 2}))
	f := Below(dir, "cp-1").Gather(t.Context())
	if r := f.Hosts[0].Record; r.Value.State != state.EtcdSole || !strings.Contains(strings.Join(f.Sources[0].Limits, " "), "sudo holdfast explain") {
		t.Errorf("%+v %+v", r, f.Sources)
	}
}

// TestStatusAndExplanationSayTheSameOfARecord: people read both programs side by
// side, so they must agree about the same file.
func TestStatusAndExplanationSayTheSameOfARecord(t *testing.T) {
	for text, want := range map[string]string{
		`{"version":1,"sha`: "torn", `{"version":2}`: "install the version that wrote it", "": "torn",
		`{"version":1,"sha256":"","record":{}}`: "changed by hand",
	} {
		dir := root(t)
		files := records.Files{Root: dir}
		must(t, host.WriteFileAtomic(files.Path(state.EtcdRecordPath), []byte(text), 0o600))
		r, err := observer.Below(dir, "cp-1").Report(t.Context(), hostreport.ForExplanation()...)
		must(t, err)
		in, err := r.Explained()
		must(t, err)
		f := Below(dir, "cp-1").Gather(t.Context())
		said := slices.IndexFunc(f.Sources[0].Limits, func(l string) bool { return strings.Contains(l, want) })
		if said < 0 || !slices.Contains(in.Limits, f.Sources[0].Limits[said]) || in.Report.Snapshot.Record.Known || f.Hosts[0].Record.Known {
			t.Errorf("%q: %q, %q", text, f.Sources[0].Limits, in.Limits)
		}
	}
}

func TestTornFilesAreSaidAndTheRestIsTold(t *testing.T) {
	dir := root(t)
	must(t, os.WriteFile(filepath.Join(dir, state.NetworkStatusPath), []byte(`{"at":`), 0o600))
	f := Below(dir, "cp-1").Gather(t.Context())
	if len(f.Sources[0].Limits) != 1 || !f.Pacemaker.Known {
		t.Errorf("%+v", f.Sources)
	}
}

func TestWhatAnAgentThatIsGoneLeftOfItsLoopsSaysNothingOfNow(t *testing.T) {
	dir := root(t)
	later := func() time.Time { return time.Now().Add(3 * time.Minute) }
	o := observer.Below(dir, "cp-1")
	o.Now = later
	f := (&Host{Name: "cp-1", Report: o.Report, Now: later}).Gather(t.Context())
	if len(f.Sources[0].Limits) != 1 || !strings.Contains(f.Sources[0].Limits[0], "systemctl status holdfast-agent") {
		t.Errorf("%+v", f.Sources)
	}
	for _, h := range f.Hosts {
		if h.Loops.Known {
			t.Errorf("%+v", h)
		}
	}
}

func TestAHostThatIsReachedByACommandTellsWhatItsAgentReports(t *testing.T) {
	dir := root(t)
	var line []string
	h := Through("cp-1", func(ctx context.Context, args ...string) ([]byte, error) {
		line = args
		r, err := observer.Below(dir, "cp-1").Report(ctx, hostreport.ForStanding()...)
		must(t, err)
		return json.Marshal(r)
	})
	f := h.Gather(t.Context())
	if len(f.Hosts) != 2 || f.Cluster != "store-17.example.com" || f.Sources[0].Failed != "" || line[0] != "holdfast-agent" {
		t.Errorf("%q: %+v", line, f)
	}
	h = Through("cp-1", func(context.Context, ...string) ([]byte, error) { return nil, errors.New("no route to host") })
	if f := h.Gather(t.Context()); len(f.Hosts) != 0 || !strings.Contains(f.Sources[0].Failed, "no route to host") {
		t.Errorf("%+v", f)
	}
}

func TestAHostOfALabThatIsOffTellsOnlyThat(t *testing.T) {
	f := Below("", "cp-2").Gather(t.Context())
	if len(f.Hosts) != 1 || f.Hosts[0].Power.Value != standing.PowerOff || f.Sources[0].Failed == "" {
		t.Errorf("%+v", f)
	}
}

func TestLagIsWhatTheOneThatIsAheadHasMore(t *testing.T) {
	m := withLag(map[string]etcd.MemberStatus{
		"cp-1": {Member: 1, Leader: 1, Serves: true, RaftIndex: 500}, "cp-2": {Member: 2, Leader: 1, Serves: true, RaftIndex: 480, Learner: true},
		"cp-3": {Member: 3},
	})
	if b := m["cp-2"].Behind; !state.Is(b, 20) || !m["cp-2"].Learner || !m["cp-1"].Leader || !state.Is(m["cp-1"].Behind, 0) {
		t.Errorf("%+v", m)
	}
	if !state.Is(m["cp-3"].Healthy, false) || m["cp-3"].Behind.Known {
		t.Errorf("one that waits for a leader: %+v", m["cp-3"])
	}
}

// A source that is slow, and one that answers as it should.
type slow struct {
	answers time.Duration
	facts   standing.Facts
	asked   *int
}

func (s slow) Gather(ctx context.Context) standing.Facts {
	*s.asked++
	select {
	case <-time.After(s.answers):
		return s.facts
	case <-ctx.Done():
		return standing.Facts{Sources: []standing.Source{{Kind: standing.FromAPI, Name: "API", Failed: "no answer"}}}
	}
}

func (slow) TimedOut(time.Duration) standing.Source {
	return standing.Source{Kind: standing.FromAPI, Name: "API", Failed: "timed out"}
}

// TestASlowAPIIsWaitedForWhereThatMayTellMore: 39 s after the end of an installation an API took
// longer than the limit (measured 2026-11-27 in the lab), and a healthy cluster was said to
// be without an API.
func TestASlowAPIIsWaitedForWhereThatMayTellMore(t *testing.T) {
	says := func(service words.Service) standing.Facts {
		return standing.Facts{
			Sources: []standing.Source{{Kind: standing.FromHost, Name: "cp-1"}},
			Hosts:   []standing.Host{{Name: "cp-1", Explanation: standing.Know(words.Explanation{Service: service}, "cp-1", time.Now())}},
		}
	}
	host := standing.Facts{Hosts: []standing.Host{{Name: "cp-1"}}}
	for what, c := range map[string]struct {
		api     time.Duration
		fails   bool
		other   standing.Facts
		patient bool
		hosts   int
		took    time.Duration
		waited  int
	}{
		"in time":                           {api: time.Second, patient: true, hosts: 1, took: time.Second},
		"late, and nobody else knows":       {api: 4 * time.Second, patient: true, hosts: 1, took: Limit + 4*time.Second, waited: 1},
		"late, and a host has told":         {api: 4 * time.Second, other: host, patient: true, hosts: 1, took: Limit},
		"late, and etcd takes writes":       {api: 4 * time.Second, other: says(words.Writes), patient: true, hosts: 1, took: Limit + 4*time.Second, waited: 1},
		"late, and etcd takes none":         {api: 4 * time.Second, other: says(words.ReadsOnly), patient: true, hosts: 1, took: Limit},
		"refused, and etcd takes writes":    {fails: true, other: says(words.Writes), patient: true, hosts: 1},
		"late, in a watch":                  {api: 4 * time.Second, took: Limit},
		"never":                             {api: time.Hour, patient: true, took: Limit + Patience, waited: 1},
		"refused at once, and nobody knows": {fails: true, patient: true},
	} {
		synctest.Test(t, func(t *testing.T) {
			waited, asked := 0, 0
			api := slow{answers: c.api, facts: host, asked: &asked}
			if c.fails {
				api.facts = standing.Facts{Sources: []standing.Source{{Kind: standing.FromAPI, Name: "API", Failed: "connection refused"}}}
			}
			g := &Gatherer{Sources: []Source{slow{facts: c.other, asked: new(int)}, api}, Now: time.Now}
			if c.patient {
				g.Waits = func() { waited++ }
			}
			began := time.Now()
			f := g.Gather(t.Context())
			if took := time.Since(began); took != c.took || len(f.Hosts) != c.hosts || waited != c.waited || asked != 1+waited {
				t.Errorf("%s: %d hosts after %s, asked %d times, waited %d times", what, len(f.Hosts), took, asked, waited)
			}
		})
	}
}
