package upgrade

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/holdfast/holdfast/internal/decide/upgrade/clusteroperator"
	"github.com/holdfast/holdfast/internal/decide/upgrade/survey"
	"github.com/holdfast/holdfast/internal/model/state"
	render "github.com/holdfast/holdfast/internal/render/operator"
	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

// firstHost plays until the first host of a site of two has accepted the new release, with
// something that is then wrong, and checks that the second one gets no turn while it is.
func firstHost(t *testing.T, wrong func(w *world, first string), mended func(w *world), says string) {
	t.Helper()
	w := newWorld(t, 2, 0)
	w.begins()
	first := ""
	w.until("a host runs the new release", func() bool {
		for name, h := range w.hosts {
			if h.running == newImage {
				first = name
			}
		}
		return first != ""
	})
	wrong(w, first)
	for range 20 {
		must(t, w.round())
	}
	if got := w.condition("Progressing"); w.everywhere(newImage) || !strings.Contains(got, says) {
		t.Fatalf("it went on, or does not say %q: %s", says, got)
	}
	mended(w)
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
}

// TestU34_DataThatDifferHoldTheNextHost: they are compared anew once a host has taken a step.
func TestU34_DataThatDifferHoldTheNextHost(t *testing.T) {
	equal := func(is bool) func(*world) {
		return func(w *world) {
			w.r.Equal = func(context.Context, map[string]string) state.Fact[bool] { return state.Known(is) }
		}
	}
	firstHost(t, func(w *world, _ string) { equal(false)(w) }, equal(true), "etcd-data: the data of the members differ at one revision")
}

// TestU36_AnAPIServerThatRefusesWhatLiesThereHoldsTheNextHost.
func TestU36_AnAPIServerThatRefusesWhatLiesThereHoldsTheNextHost(t *testing.T) {
	firstHost(t,
		func(w *world, first string) {
			w.refuses = map[string][]string{first: {"Node x: spec.podCIDR: Invalid value"}}
		},
		func(w *world) { w.refuses = nil },
		"refused-objects: an API server refuses objects as they lie there: cp-")
}

// TestU36_WhatARefusalIs: and what says nothing of an object.
func TestU36_WhatARefusalIs(t *testing.T) {
	for _, c := range []struct {
		code    int
		message string
		refused bool
		unknown bool
	}{
		{200, "", false, false},
		{404, "nodes \"x\" not found", false, false},
		{422, "Node is invalid: spec.podCIDR: Invalid value", true, false},
		{400, "strict decoding error: unknown field", true, false},
		{403, "nodes \"x\" is forbidden: ValidatingAdmissionPolicy 'a' denied request", true, false},
		{403, "nodes \"x\" is forbidden: User \"u\" cannot patch resource \"nodes\" in API group \"\"", false, true},
		{400, "admission webhook \"w\" does not support dry run", false, false},
		{401, "Unauthorized", false, true},
		{409, "the object has been modified", false, true},
		{429, "too many requests", false, true},
		{500, "failed calling webhook", false, true},
		{503, "etcdserver: leader changed", false, true},
	} {
		why, err := judge(c.code, c.message)
		if (why != "") != c.refused || (err != nil) != c.unknown {
			t.Errorf("%d %s: %q %v", c.code, c.message, why, err)
		}
	}
}

// TestU36_EachServerIsAskedWithATrialThatWritesNothing, and not again once it has taken all.
func TestU36_EachServerIsAskedWithATrialThatWritesNothing(t *testing.T) {
	var asked []string
	refuse := ""
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPatch || r.URL.Query().Get("dryRun") != "All" || r.Header.Get("Content-Type") != "application/merge-patch+json" {
			t.Errorf("%s %s", r.Method, r.URL)
		}
		asked = append(asked, r.URL.Path)
		if refuse != "" && strings.Contains(r.URL.Path, refuse) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_ = json.NewEncoder(w).Encode(metav1.Status{Message: "it is invalid"})
		}
	}))
	defer server.Close()
	ask := APIServers{Config: &rest.Config{Host: "https://elsewhere.invalid", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}}
	r := &Reconciler{Refuses: ask.Refuses}
	at := map[string]string{"cp-1": strings.TrimPrefix(server.URL, "https://")}
	refuse = "infrastructures"
	if got := r.refused(t.Context(), at); !got.Known || !slices.Equal(got.Value, []string{"cp-1: Infrastructure cluster: it is invalid"}) {
		t.Fatalf("%+v", got)
	}
	if !slices.Contains(asked, "/api/v1/nodes/cp-1") || len(asked) != len(tried) {
		t.Errorf("%q", asked)
	}
	refuse = ""
	for range 3 {
		if got := r.refused(t.Context(), at); !got.Known || len(got.Value) > 0 {
			t.Fatalf("%+v", got)
		}
	}
	if len(asked) != 2*len(tried) {
		t.Errorf("asked %d times", len(asked))
	}
	r.kept.took = nil
	at["cp-2"] = "127.0.0.1:1"
	if got := r.refused(t.Context(), at); got.Known {
		t.Errorf("one does not answer: %+v", got)
	}
}

// TestU36_ARealAPIServerTakesWhatLiesThere with the rights of the operator, and writes
// nothing.
func TestU36_ARealAPIServerTakesWhatLiesThere(t *testing.T) {
	api := apitest.Need(t, server)
	w := newSite(t)
	before := w.node("cp-1").ResourceVersion
	cfg := api.AsServiceAccount(render.Namespace, render.Name)
	got, err := APIServers{Config: cfg}.Refuses(t.Context(), "cp-1", strings.TrimPrefix(cfg.Host, "https://"))
	if err != nil || len(got) > 0 || w.node("cp-1").ResourceVersion != before {
		t.Errorf("%q %v", got, err)
	}
}

// TestU37_ALeaderThatRenewsNothingHoldsTheNextHost: whoever leads says that it is well.
func TestU37_ALeaderThatRenewsNothingHoldsTheNextHost(t *testing.T) {
	for _, name := range []string{clusteroperator.Controllers, clusteroperator.Scheduler} {
		firstHost(t, func(w *world, _ string) { w.idle = name }, func(w *world) { w.idle = "" }, "leaders: nobody renews the lease of: "+name)
	}
}

// pod returns one that a host was given at a time, and that waits for its sandbox.
func pod(name, host string, given time.Time) *corev1.Pod {
	at := metav1.NewTime(given)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       corev1.PodSpec{NodeName: host, Containers: []corev1.Container{{Name: "a", Image: "b"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at},
			{Type: corev1.PodReadyToStartContainers, Status: corev1.ConditionFalse, LastTransitionTime: at},
		}},
	}
}

// TestU38_AHostThatStartsNoPodHoldsTheNextOne.
func TestU38_AHostThatStartsNoPodHoldsTheNextOne(t *testing.T) {
	firstHost(t,
		func(w *world, first string) { must(t, w.admin.Create(t.Context(), pod("db-0", first, w.now))) },
		func(w *world) { must(t, w.admin.Delete(t.Context(), pod("db-0", "", w.now))) },
		"sandboxes: hosts of the new release have not started any pod yet that they were given: cp-")
}

// TestU89_AnOperatorThatSleptGivesNoTurn: what it decided from has changed meanwhile, and the
// API refuses its write by the version of the object.
func TestU89_AnOperatorThatSleptGivesNoTurn(t *testing.T) {
	w := newWorld(t, 2, 0)
	w.begins()
	w.until("a host has its turn", func() bool { return len(w.record().Turns) > 0 })
	sleeper := w.r
	version, _, err := sleeper.version(t.Context())
	must(t, err)
	book, err := sleeper.book(t.Context())
	must(t, err)
	slept, err := sleeper.gather(t.Context(), version, book)
	must(t, err)
	before, _ := slept.survey.Next()
	w.restart()
	w.until("all hosts run it", func() bool { return w.everywhere(newImage) })
	turns := map[string]map[string]string{}
	for _, name := range w.names() {
		turns[name] = w.node(name).Annotations
	}
	record := w.record()
	for what, err := range map[string]error{"a turn": sleeper.turns(t.Context(), slept, before), "the record": sleeper.write(t.Context(), slept, before)} {
		if err == nil {
			t.Errorf("it writes %s", what)
		}
	}
	for _, name := range w.names() {
		if got := w.node(name).Annotations; !maps.Equal(got, turns[name]) {
			t.Errorf("%s: %v, it had %v", name, got, turns[name])
		}
	}
	if got := w.record(); got.Upgrade != record.Upgrade || !slices.Equal(got.Turns, record.Turns) {
		t.Errorf("%+v, it was %+v", got, record)
	}
}

// TestU66_ConversionsAreReadInPiecesAndSeldom.
func TestU66_ConversionsAreReadInPiecesAndSeldom(t *testing.T) {
	w := newWorld(t, 2, 0)
	got, err := w.r.conversions(t.Context())
	if err != nil || !got.Known || len(got.Value) > 0 {
		t.Fatalf("no kinds: %+v %v", got, err)
	}
	w.r.kept.conversions = append(w.r.kept.conversions, survey.Webhook{Name: "x"})
	if got, err := w.r.conversions(t.Context()); err != nil || len(got.Value) != 1 {
		t.Errorf("read again within the hour: %+v %v", got, err)
	}
	w.now = w.now.Add(conversionsLife)
	if got, err := w.r.conversions(t.Context()); err != nil || len(got.Value) != 0 {
		t.Errorf("not read again after it: %+v %v", got, err)
	}
}
