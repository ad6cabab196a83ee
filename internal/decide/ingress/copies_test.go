package ingress

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ingressOf returns an Ingress of a class that names Secrets.
func ingressOf(namespace, name, class string, secrets ...string) networkingv1.Ingress {
	out := networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	out.Spec.IngressClassName = &class
	for _, s := range secrets {
		out.Spec.TLS = append(out.Spec.TLS, networkingv1.IngressTLS{SecretName: s})
	}
	return out
}

func gatewayOf(namespace, class string, refs ...Reference) Gateway {
	out := Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	out.Spec.ClassName = class
	out.Spec.Listeners = append(out.Spec.Listeners, struct {
		TLS struct {
			CertificateRefs []Reference `json:"certificateRefs"`
		} `json:"tls"`
	}{})
	out.Spec.Listeners[0].TLS.CertificateRefs = refs
	return out
}

func grantOf(namespace string, from, to Reference) ReferenceGrant {
	out := ReferenceGrant{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}
	out.Spec.From, out.Spec.To = []Reference{from}, []Reference{to}
	return out
}

// told returns sources as text, each with a mark for the parts that are read.
func told(needed []Needed) string {
	var out []string
	for _, n := range needed {
		text := n.String()
		if n.Pair {
			text += " pair"
		}
		if n.Authority {
			text += " authority"
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

func TestRoutersNeedWhatTheirRoutesNameAndNothingElse(t *testing.T) {
	const ours, theirs = "openshift-default", "nginx"
	classless := ingressOf("shop", "old", "", "annotated")
	classless.Spec.IngressClassName = nil
	classless.Annotations = map[string]string{"kubernetes.io/ingress.class": ours}
	backend := BackendTLSPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "backend"}}
	backend.Spec.Validation.CACertificateRefs = []Reference{
		{Kind: KindConfigMap, Name: "authorities"}, {Kind: KindSecret, Name: "tls"}, {Group: "else", Kind: KindConfigMap, Name: "no"},
	}
	from := Reference{Group: GatewayGroup, Kind: "Gateway", Namespace: "edge"}
	for name, tt := range map[string]struct {
		routes Routes
		want   string
	}{
		"nothing":                        {Routes{}, ""},
		"an Ingress of ours":             {Routes{Ingresses: []networkingv1.Ingress{ingressOf("shop", "web", ours, "tls", "", "more")}}, "Secret shop/more pair, Secret shop/tls pair"},
		"an Ingress of another class":    {Routes{Ingresses: []networkingv1.Ingress{ingressOf("shop", "web", theirs, "tls")}}, ""},
		"a class by annotation":          {Routes{Ingresses: []networkingv1.Ingress{classless}}, "Secret shop/annotated pair"},
		"two that name the same":         {Routes{Ingresses: []networkingv1.Ingress{ingressOf("shop", "a", ours, "tls"), ingressOf("shop", "b", ours, "tls")}}, "Secret shop/tls pair"},
		"a Gateway of ours":              {Routes{Gateways: []Gateway{gatewayOf("edge", ours, Reference{Name: "a"}, Reference{Kind: KindSecret, Name: "b"})}}, "Secret edge/a pair, Secret edge/b pair"},
		"a Gateway of another class":     {Routes{Gateways: []Gateway{gatewayOf("edge", theirs, Reference{Name: "a"})}}, ""},
		"something that is no Secret":    {Routes{Gateways: []Gateway{gatewayOf("edge", ours, Reference{Group: "vault.example", Kind: "Cert", Name: "a"})}}, ""},
		"another namespace's, ungranted": {Routes{Gateways: []Gateway{gatewayOf("edge", ours, Reference{Namespace: "shop", Name: "a"})}}, ""},
		"another namespace's, granted": {Routes{
			Gateways: []Gateway{gatewayOf("edge", ours, Reference{Namespace: "shop", Name: "a"}, Reference{Namespace: "shop", Name: "b"})},
			Grants:   []ReferenceGrant{grantOf("shop", from, Reference{Kind: KindSecret, Name: "a"})},
		}, "Secret shop/a pair"},
		"another namespace's, all granted": {Routes{
			Gateways: []Gateway{gatewayOf("edge", ours, Reference{Namespace: "shop", Name: "a"})},
			Grants:   []ReferenceGrant{grantOf("shop", from, Reference{Kind: KindSecret})},
		}, "Secret shop/a pair"},
		"granted to somebody else": {Routes{
			Gateways: []Gateway{gatewayOf("mine", ours, Reference{Namespace: "shop", Name: "a"})},
			Grants: []ReferenceGrant{
				grantOf("shop", from, Reference{Kind: KindSecret}),
				grantOf("shop", Reference{Group: GatewayGroup, Kind: "HTTPRoute", Namespace: "mine"}, Reference{Kind: KindSecret}),
				grantOf("bank", Reference{Group: GatewayGroup, Kind: "Gateway", Namespace: "mine"}, Reference{Kind: KindSecret}),
			},
		}, ""},
		"authorities of backends": {Routes{Policies: []BackendTLSPolicy{backend}}, "ConfigMap shop/authorities authority, Secret shop/tls authority"},
		"one Secret for both": {
			Routes{Policies: []BackendTLSPolicy{backend}, Ingresses: []networkingv1.Ingress{ingressOf("shop", "web", ours, "tls")}},
			"ConfigMap shop/authorities authority, Secret shop/tls pair authority",
		},
	} {
		tt.routes.Classes = []string{ours}
		needed, refused := NeededBy(tt.routes)
		if got := told(needed); got != tt.want || len(refused) > 0 {
			t.Errorf("%s: %s, want %s; refused %v", name, got, tt.want, refused)
		}
	}
}

func TestNothingOfTheClustersOwnNamespacesIsGivenToRouters(t *testing.T) {
	for namespace, lends := range map[string]bool{
		"shop": true, "default": true, OperandNamespace: true, "kubernetes-dashboard": true, "openshifty": true,
		"kube-system": false, "kube-public": false, "kube-flannel": false, "openshift-etcd": false, "openshift-config": false,
		Namespace: false, "openshift-config-managed": false, CertificatesNamespace: false,
	} {
		routes := Routes{Classes: []string{"openshift-default"}, Ingresses: []networkingv1.Ingress{ingressOf(namespace, "web", "openshift-default", "tls")}}
		needed, refused := NeededBy(routes)
		if (len(needed) == 1) != lends || (len(refused) == 1) == lends {
			t.Errorf("%s: needed %v, refused %v", namespace, needed, refused)
		}
		for _, r := range refused {
			if r.Route != (Route{"Ingress", namespace, "web"}) || !strings.Contains(r.Why, "Secret "+namespace+"/tls: ") {
				t.Errorf("%s: %+v", namespace, r)
			}
		}
	}
}

// A grant in one of the cluster's own namespaces gives no more access than an
// Ingress there.
func TestNobodyIsGrantedWhatIsTheClusters(t *testing.T) {
	needed, refused := NeededBy(Routes{
		Classes:  []string{"openshift-default"},
		Gateways: []Gateway{gatewayOf("edge", "openshift-default", Reference{Namespace: "openshift-etcd", Name: "fencing-credentials-cp-1"})},
		Grants:   []ReferenceGrant{grantOf("openshift-etcd", Reference{Group: GatewayGroup, Kind: "Gateway", Namespace: "edge"}, Reference{Kind: KindSecret})},
	})
	if len(needed) > 0 || len(refused) != 1 {
		t.Errorf("needed %v, refused %v", needed, refused)
	}
}

func TestACopyIsCalledByItsSourceAndLongNamesAreRefused(t *testing.T) {
	if got := (Source{KindSecret, "shop", "bank.tls"}).CopyName(); got != "shop.bank.tls" {
		t.Error(got)
	}
	long := strings.Repeat("a", 63)
	for length, refuses := range map[int]bool{253 - 64: false, 253 - 63: true} {
		_, refused := NeededBy(Routes{Classes: []string{"c"}, Ingresses: []networkingv1.Ingress{ingressOf(long, "web", "c", strings.Repeat("b", length))}})
		if (len(refused) == 1) != refuses {
			t.Errorf("%d characters: %v", length, refused)
		}
	}
}

func TestACopyHoldsAPairOrAuthoritiesAndNothingElse(t *testing.T) {
	now := time.Now()
	foreign := issue(t, now, time.Hour, nil, "shop.example").data[corev1.TLSPrivateKeyKey]
	data := joined(issue(t, now, time.Hour, nil, "shop.example").data, nil)
	data["ca.crt"], data["password"] = []byte("CA"), []byte("hush")
	with := func(key string, value []byte) map[string][]byte {
		out := maps.Clone(data)
		out[key] = value
		return out
	}
	source := Source{KindSecret, "shop", "tls"}
	for name, tt := range map[string]struct {
		n             Needed
		data          map[string][]byte
		keys, problem string
	}{
		"a pair":                   {Needed{Source: source, Pair: true}, data, "tls.crt tls.key", ""},
		"authorities":              {Needed{Source: source, Authority: true}, data, "ca.crt", ""},
		"both":                     {Needed{Source: source, Pair: true, Authority: true}, data, "ca.crt tls.crt tls.key", ""},
		"a pair without authority": {Needed{Source: source, Pair: true, Authority: true}, with("ca.crt", nil), "tls.crt tls.key", ""},
		"no authorities":           {Needed{Source: source, Authority: true}, with("ca.crt", nil), "", "Secret shop/tls: the key ca.crt is missing or empty"},
		"a password":               {Needed{Source: source, Pair: true}, map[string][]byte{"password": []byte("hush")}, "", "Secret shop/tls: tls.crt holds no certificate in PEM"},
		"another one's key":        {Needed{Source: source, Pair: true}, with(corev1.TLSPrivateKeyKey, foreign), "", "Secret shop/tls: certificate and key do not belong together"},
		"a key that is none":       {Needed{Source: source, Pair: true}, with(corev1.TLSPrivateKeyKey, []byte("hush")), "", "Secret shop/tls: "},
	} {
		content, problem := tt.n.Content(tt.data)
		var keys []string
		for k := range content {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		if got := strings.Join(keys, " "); got != tt.keys || !strings.HasPrefix(problem, tt.problem) || (tt.problem == "") != (problem == "") {
			t.Errorf("%s: %q, %q", name, got, problem)
		}
		if strings.Contains(problem, "hush") {
			t.Errorf("%s: the problem tells the content", name)
		}
	}
}

func TestACopyStandsWhileItIsOfThatVersionAndNobodyChangedIt(t *testing.T) {
	n := Needed{Source: Source{KindSecret, "shop", "tls"}, Pair: true}
	content := map[string][]byte{"a": []byte("1"), "b": []byte("2")}
	made := n.Made("uid 7", content)
	if !n.Stands(made, content, "uid 7") {
		t.Error("what was made does not stand")
	}
	more := n
	more.Authority = true
	for name, stands := range map[string]bool{
		"another version": n.Stands(made, content, "uid 8"),
		"another content": n.Stands(made, map[string][]byte{"a": []byte("12"), "b": []byte("")}, "uid 7"),
		"more is read":    more.Stands(made, content, "uid 7"),
		"nothing is said": n.Stands(nil, content, "uid 7"),
	} {
		if stands {
			t.Errorf("%s: it stands", name)
		}
	}
	if diff := cmp.Diff("Secret shop/tls", made[AnnotationCopyOf]); diff != "" || strings.Contains(fmt.Sprint(made), "12") {
		t.Error(diff, made)
	}
}
