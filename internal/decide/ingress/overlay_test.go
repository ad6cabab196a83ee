package ingress

import (
	"encoding/json"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// anything is an object of fields that nobody knows.
type anything = map[string]any

func decoded(t *testing.T, text string) *anything {
	t.Helper()
	var out anything
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return &out
}

// TestWhatAnObjectBecomesThatOthersWriteToo: what is wanted is there afterwards, and
// what nobody asks for stays.
func TestWhatAnObjectBecomesThatOthersWriteToo(t *testing.T) {
	for rule, c := range map[string]struct {
		live, wanted string
		gone         []string
		want         string // empty for what is live
	}{
		"what is wanted and there is not written":      {`{"a":1,"b":{"c":2}}`, `{"b":{"c":2}}`, nil, ``},
		"a field that is wanted gets its value":        {`{"a":1}`, `{"a":2}`, nil, `{"a":2}`},
		"a field that nobody asks for stays":           {`{"a":1,"b":3}`, `{"a":2}`, nil, `{"a":2,"b":3}`},
		"also deep inside":                             {`{"a":{"b":1,"c":{"d":2}}}`, `{"a":{"b":9}}`, nil, `{"a":{"b":9,"c":{"d":2}}}`},
		"a field that is missing is added":             {`{}`, `{"a":{"b":[1]}}`, nil, `{"a":{"b":[1]}}`},
		"an unset field asks for nothing":              {`{"a":1}`, `{"a":null,"b":null}`, nil, ``},
		"kind, version and status are never wanted":    {`{"kind":"A","apiVersion":"v1","status":1}`, `{"kind":"B","apiVersion":"v2","status":2}`, nil, ``},
		"a value takes the place of a map":             {`{"a":{"b":1}}`, `{"a":5}`, nil, `{"a":5}`},
		"and a map that of a value":                    {`{"a":5}`, `{"a":{"b":1}}`, nil, `{"a":{"b":1}}`},
		"entries of a list are matched by their names": {`{"l":[{"name":"x","k":1},{"name":"y","k":2}]}`, `{"l":[{"name":"y","v":3},{"name":"x"}]}`, nil, `{"l":[{"name":"y","k":2,"v":3},{"name":"x","k":1}]}`},
		"an entry of another name is a new one":        {`{"l":[{"name":"x","k":1}]}`, `{"l":[{"name":"y"}]}`, nil, `{"l":[{"name":"y"}]}`},
		"without names by their places":                {`{"l":[{"k":1},{"k":2}]}`, `{"l":[{"v":3},{"v":4}]}`, nil, `{"l":[{"k":1,"v":3},{"k":2,"v":4}]}`},
		"but not where there are more or fewer":        {`{"l":[{"k":1},{"k":2}]}`, `{"l":[{"v":3}]}`, nil, `{"l":[{"v":3}]}`},
		"entries that are not wanted go":               {`{"l":[{"name":"x"},{"name":"y"}]}`, `{"l":[{"name":"x"}]}`, nil, `{"l":[{"name":"x"}]}`},
		"a list of values is what is wanted":           {`{"l":[1,2]}`, `{"l":[2,3]}`, nil, `{"l":[2,3]}`},
		"an empty list empties":                        {`{"l":[1]}`, `{"l":[]}`, nil, `{"l":[]}`},
		"what is to go goes":                           {`{"a":{"b":1,"c":2}}`, `{}`, []string{"a.b"}, `{"a":{"c":2}}`},
		"what is to go is not what has its end":        {`{"b":1,"a":{"b":1}}`, `{}`, []string{"a.b"}, `{"b":1,"a":{}}`},
		"what is to be exactly this is not laid over":  {`{"a":{"b":1}}`, `{"a":{"c":2}}`, []string{"a"}, `{"a":{"c":2}}`},
		"what is to go, and is wanted, deeper inside":  {`{"a":{"b":{"x":1},"k":1}}`, `{"a":{"b":{"y":2}}}`, []string{"a.b"}, `{"a":{"b":{"y":2},"k":1}}`},
		"what is to go and is not there is no change":  {`{"a":1}`, `{"a":1}`, []string{"b"}, ``},
	} {
		live, wanted := decoded(t, c.live), decoded(t, c.wanted)
		got, changed, err := Overlay(live, wanted, c.gone...)
		want := c.want
		if want == "" {
			want = c.live
		}
		text, _ := json.Marshal(got)
		normal, _ := json.Marshal(decoded(t, want))
		if err != nil || string(text) != string(normal) || changed != (c.want != "") {
			t.Errorf("%s: %s, changed %t, %v; want %s", rule, text, changed, err, normal)
		}
		if changed == (got == live) {
			t.Errorf("%s: what is live is returned where it stays, and only there", rule)
		}
		again, changed, err := Overlay(got, wanted, c.gone...)
		if changed || err != nil || again != got {
			t.Errorf("%s: the second time it changes again: %v", rule, err)
		}
	}
}

func TestAnObjectThatIsNoneIsNotMerged(t *testing.T) {
	good, bad := anything{"a": 1}, anything{"a": func() {}}
	for _, c := range [][2]*anything{{&good, &bad}, {&bad, &good}} {
		if got, changed, err := Overlay(c[0], c[1]); err == nil || changed || got != nil {
			t.Errorf("%v, %t", got, changed)
		}
	}
	list := []int{1}
	if _, _, err := Overlay(&list, &list); err == nil {
		t.Error("a list is no object")
	}
}

// TestWhatTheAPIFilledInStays: a Service of today's API server has fields that this
// program does not set.
func TestWhatTheAPIFilledInStays(t *testing.T) {
	live := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", ResourceVersion: "7", Annotations: map[string]string{"theirs": "1"}}}
	live.Spec.ClusterIP, live.Spec.Ports = "10.0.0.1", []corev1.ServicePort{{Name: "http", Port: 80, NodePort: 31080}}
	wanted := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s", Annotations: map[string]string{"ours": "2"}}}
	wanted.Spec.Ports = []corev1.ServicePort{{Name: "http", Port: 8080}}
	got, changed, err := Overlay(live, wanted)
	if err != nil || !changed || got.Spec.ClusterIP != "10.0.0.1" || got.ResourceVersion != "7" ||
		got.Spec.Ports[0].NodePort != 31080 || got.Spec.Ports[0].Port != 8080 || len(got.Annotations) != 2 {
		t.Errorf("%+v, %t, %v", got, changed, err)
	}
}

// TestTheNameOfAnObjectLeadsBackToItsIngressController, among others whose name it may
// be as well.
func TestTheNameOfAnObjectLeadsBackToItsIngressController(t *testing.T) {
	for kind, name := range map[string]func(string) string{
		"router": RouterName, "internal": InternalName, "certificate": CertificateName, "config": ConfigName, "hosts": HostsName, "class": ClassName,
	} {
		for _, ic := range []string{"default", "a-b", "internal-x"} {
			found := 0
			for _, n := range NamesOf(name(ic)) {
				if n == ic {
					found++
				}
			}
			if found != 1 {
				t.Errorf("%s of %s: %v", kind, ic, NamesOf(name(ic)))
			}
		}
	}
	for _, other := range []string{"", "router-", "openshift-", "other", "a-router-x"} {
		if got := NamesOf(other); len(got) != 0 {
			t.Errorf("%q belongs to %q", other, got)
		}
	}
	if got := NamesOf("router-config-x"); len(got) != 2 || got[0] != "x" || got[1] != "config-x" {
		t.Errorf("it may be either's: %q", got)
	}
}
