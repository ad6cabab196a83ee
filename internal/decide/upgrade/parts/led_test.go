package parts_test

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/holdfast/holdfast/internal/decide/upgrade/parts"
)

func read[T any](t *testing.T, text string) T {
	t.Helper()
	var out T
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// TestWhereIngressesLead: to each port of a Service once, and nowhere that nobody could ask for.
func TestWhereIngressesLead(t *testing.T) {
	ingresses := read[[]networkingv1.Ingress](t, `[
		{"metadata":{"namespace":"shop","name":"a"},"spec":{"ingressClassName":"r","rules":[
			{"host":"shop.example","http":{"paths":[
				{"path":"/till","backend":{"service":{"name":"shop","port":{"number":80}}}},
				{"path":"/other","backend":{"service":{"name":"shop","port":{"number":80}}}},
				{"backend":{"service":{"name":"shop","port":{"name":"admin"}}}},
				{"path":"/file","backend":{"resource":{"kind":"Bucket","name":"x"}}}]}},
			{"host":"*.example","http":{"paths":[{"backend":{"service":{"name":"wild","port":{"number":80}}}}]}},
			{"http":{"paths":[{"backend":{"service":{"name":"all","port":{"number":80}}}}]}},
			{"host":"none.example"}]}},
		{"metadata":{"namespace":"shop","name":"b"},"spec":{"ingressClassName":"other","rules":[{"host":"b.example","http":{"paths":[{"backend":{"service":{"name":"b","port":{"number":80}}}}]}}]}},
		{"metadata":{"namespace":"shop","name":"c"},"spec":{"rules":[{"host":"c.example","http":{"paths":[{"backend":{"service":{"name":"c","port":{"number":80}}}}]}}]}}]`)
	want := []parts.Led{
		{Host: "shop.example", Path: "/", Namespace: "shop", Service: "shop", Name: "admin"},
		{Host: "shop.example", Path: "/till", Namespace: "shop", Service: "shop", Number: 80},
	}
	if got := parts.LedByIngresses(ingresses, "r"); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
	for i := range 9 {
		one := ingresses[0].DeepCopy()
		one.Spec.Rules = one.Spec.Rules[:1]
		one.Spec.Rules[0].HTTP.Paths[0].Backend.Service.Port.Number = int32(i + 100)
		ingresses = append(ingresses, *one)
	}
	if got := parts.LedByIngresses(ingresses, "r"); len(got) != 5 {
		t.Errorf("of many: %d", len(got))
	}
}

// TestWhereRoutesLead: those that a Gateway of the class has accepted for plain HTTP.
func TestWhereRoutesLead(t *testing.T) {
	gateways := read[[]parts.Gateway](t, `[
		{"metadata":{"namespace":"gw","name":"plain"},"spec":{"gatewayClassName":"r","listeners":[{"name":"web","protocol":"HTTP","hostname":"*.example"},{"name":"tls","protocol":"HTTPS"}]}},
		{"metadata":{"namespace":"gw","name":"foreign"},"spec":{"gatewayClassName":"other","listeners":[{"name":"web","protocol":"HTTP"}]}}]`)
	const accepted = `"conditions":[{"type":"Accepted","status":"True"},{"type":"ResolvedRefs","status":"True"}]`
	route := func(host, parent, conditions, rule string) parts.HTTPRoute {
		return read[parts.HTTPRoute](t, `{"metadata":{"namespace":"shop","name":"x"},"spec":{"hostnames":["`+host+`"],"rules":[`+rule+`]},"status":{"parents":[{"parentRef":{`+parent+`},`+conditions+`}]}}`)
	}
	const plain, backend = `"namespace":"gw","name":"plain"`, `"backendRefs":[{"name":"shop","port":80}]`
	led := func(path string) []parts.Led {
		return []parts.Led{{Host: "shop.example", Path: path, Namespace: "shop", Service: "shop", Number: 80}}
	}
	for what, c := range map[string]struct {
		route parts.HTTPRoute
		want  []parts.Led
	}{
		"it leads":                       {route("shop.example", plain, accepted, `{`+backend+`}`), led("/")},
		"by a path":                      {route("shop.example", plain, accepted, `{"matches":[{"path":{"type":"PathPrefix","value":"/till"}}],`+backend+`}`), led("/till")},
		"by its listener of plain HTTP":  {route("shop.example", plain+`,"sectionName":"web"`, accepted, `{`+backend+`}`), led("/")},
		"by that of TLS":                 {route("shop.example", plain+`,"sectionName":"tls"`, accepted, `{`+backend+`}`), nil},
		"by a header":                    {route("shop.example", plain, accepted, `{"matches":[{"headers":[{"name":"a","value":"b"}]}],`+backend+`}`), nil},
		"by a pattern":                   {route("shop.example", plain, accepted, `{"matches":[{"path":{"type":"RegularExpression","value":"/a.*"}}],`+backend+`}`), nil},
		"for another method":             {route("shop.example", plain, accepted, `{"matches":[{"method":"POST"}],`+backend+`}`), nil},
		"for a host of no listener":      {route("shop.test", plain, accepted, `{`+backend+`}`), nil},
		"for a wildcard":                 {route("*.example", plain, accepted, `{`+backend+`}`), nil},
		"not accepted":                   {route("shop.example", plain, `"conditions":[{"type":"Accepted","status":"False"},{"type":"ResolvedRefs","status":"True"}]`, `{`+backend+`}`), nil},
		"to a Service that is not there": {route("shop.example", plain, `"conditions":[{"type":"Accepted","status":"True"},{"type":"ResolvedRefs","status":"False"}]`, `{`+backend+`}`), nil},
		"by a Gateway of another class":  {route("shop.example", `"namespace":"gw","name":"foreign"`, accepted, `{`+backend+`}`), nil},
		"by one that is not there":       {route("shop.example", `"name":"plain"`, accepted, `{`+backend+`}`), nil},
		"to another namespace":           {route("shop.example", plain, accepted, `{"backendRefs":[{"name":"shop","namespace":"y","port":80}]}`), nil},
		"with no weight":                 {route("shop.example", plain, accepted, `{"backendRefs":[{"name":"old","port":80,"weight":0},{"name":"shop","port":80,"weight":1}]}`), led("/")},
		"to no Service":                  {route("shop.example", plain, accepted, `{"backendRefs":[{"kind":"Bucket","name":"x"}]}`), nil},
	} {
		if got := parts.LedByRoutes([]parts.HTTPRoute{c.route}, gateways, "r"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// TestThePodBehindAPortIsTheOneOfThatPort, and none is guessed.
func TestThePodBehindAPortIsTheOneOfThatPort(t *testing.T) {
	one := read[[]discoveryv1.EndpointSlice](t, `[{"ports":[{"port":8080}],"endpoints":[{"addresses":["10.0.0.1"],"conditions":{"ready":false}},{"addresses":["10.0.0.2"]}]}]`)
	two := read[[]discoveryv1.EndpointSlice](t, `[{"ports":[{"name":"metrics","port":9090},{"name":"web","port":8080}],"endpoints":[{"addresses":["fd00::2"],"conditions":{"ready":true}}]}]`)
	service := read[corev1.Service](t, `{"spec":{"ports":[{"name":"metrics","port":9090},{"name":"web","port":80}]}}`)
	for what, c := range map[string]struct {
		led     parts.Led
		service *corev1.Service
		list    []discoveryv1.EndpointSlice
		want    string
	}{
		"the only port":                 {parts.Led{Number: 80}, nil, one, "10.0.0.2:8080"},
		"by its name":                   {parts.Led{Name: "web"}, nil, two, "[fd00::2]:8080"},
		"by the number of the Service":  {parts.Led{Number: 80}, &service, two, "[fd00::2]:8080"},
		"another number":                {parts.Led{Number: 9090}, &service, two, "[fd00::2]:9090"},
		"a number that nobody can read": {parts.Led{Number: 80}, nil, two, ""},
		"a number that is not there":    {parts.Led{Number: 81}, &service, one, ""},
		"a name that is not there":      {parts.Led{Name: "admin"}, nil, two, ""},
		"no pod":                        {parts.Led{Number: 80}, nil, nil, ""},
	} {
		if got := parts.PodBehind(c.led, c.service, c.list); got != c.want {
			t.Errorf("%s: %q, want %q", what, got, c.want)
		}
	}
}

func TestARouterIsAskedWhereItServesAndOnlyIfItIsReady(t *testing.T) {
	whole := read[corev1.Pod](t, `{"spec":{"containers":[{"name":"router","ports":[{"name":"https","containerPort":443},{"name":"http","containerPort":80}]}]},"status":{"podIP":"10.0.0.9","conditions":[{"type":"Ready","status":"True"}]}}`)
	if got := parts.RouterAt(&whole, "http"); got != "10.0.0.9:80" {
		t.Errorf("it serves at %q", got)
	}
	for what, change := range map[string]func(*corev1.Pod){
		"not ready":    func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse },
		"ends":         func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
		"no address":   func(p *corev1.Pod) { p.Status.PodIP = "" },
		"another port": func(p *corev1.Pod) { p.Spec.Containers[0].Ports = nil },
		"no container": func(p *corev1.Pod) { p.Spec.Containers = nil },
	} {
		p := whole.DeepCopy()
		change(p)
		if got := parts.RouterAt(p, "http"); got != "" {
			t.Errorf("%s: %q", what, got)
		}
	}
}
