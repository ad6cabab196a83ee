package ingress

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"testing"

	operatorv1 "github.com/openshift/api/operator/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestWhichKeysAreRead(t *testing.T) {
	ec, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	old, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	sec1, err := x509.MarshalECPrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(ec)
	if err != nil {
		t.Fatal(err)
	}
	in := func(kind string, der []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}) }
	for name, c := range map[string]struct {
		text []byte
		want any // the public key, nil for none
	}{
		"SEC 1":                  {in("EC PRIVATE KEY", sec1), ec.Public()},
		"SEC 1 behind its curve": {bytes.Join([][]byte{in("EC PARAMETERS", []byte{6}), in("EC PARAMETERS", []byte{6}), in("EC PRIVATE KEY", sec1)}, nil), ec.Public()},
		"PKCS #1":                {in("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(old)), old.Public()},
		"PKCS #8":                {in("PRIVATE KEY", pkcs8), ec.Public()},
		"a curve without a key":  {in("EC PARAMETERS", []byte{6}), nil},
		"PKCS #8 that is cut":    {in("PRIVATE KEY", pkcs8[:20]), nil},
		"a public key":           {in("PUBLIC KEY", []byte("x")), nil},
		"no PEM":                 {[]byte("x"), nil},
		"nothing":                {nil, nil},
	} {
		key, err := ParseKey(c.text)
		if c.want == nil {
			if err == nil || key != nil {
				t.Errorf("%s is read as %v", name, key)
			}
			continue
		}
		if err != nil || !key.Public().(interface{ Equal(x crypto.PublicKey) bool }).Equal(c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A pressure on a host and a drain pass: the host is one that routers belong on.
func TestWhichTaintsKeepARouterAway(t *testing.T) {
	r := &Router{Tolerations: []corev1.Toleration{{Key: "mine", Operator: corev1.TolerationOpExists}}}
	for key, stays := range map[string]bool{
		corev1.TaintNodeNotReady: true, corev1.TaintNodeUnreachable: true, corev1.TaintNodeUnschedulable: true, corev1.TaintNodeOutOfService: true,
		corev1.TaintNodeMemoryPressure: true, corev1.TaintNodeDiskPressure: true, corev1.TaintNodePIDPressure: true, corev1.TaintNodeNetworkUnavailable: true,
		"mine": true, "theirs": false,
	} {
		h := host("w", true)
		for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
			h.Taints = []corev1.Taint{{Key: key, Effect: effect}}
			if room([]Host{h}, r).Eligible > 0 != stays {
				t.Errorf("%s:%s: a router may run there: %t", key, effect, !stays)
			}
		}
		h.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectPreferNoSchedule}}
		if room([]Host{h}, r) != (Room{Eligible: 1, Live: 1}) {
			t.Errorf("%s is only a wish", key)
		}
	}
}

// Somebody else may own what a router of this kind does not need.
func TestWhatOfOthersIsInTheWay(t *testing.T) {
	name := func(kind string) string { return ObjectName(kind, OperandNamespace, RouterName("x")) }
	all := []string{name("Deployment"), name("Service"), name("PodDisruptionBudget")}
	for _, kind := range strategyTypes() {
		for _, replicas := range []int32{1, 3} {
			r := of(t, kind, new(replicas), site{hosts: 3})
			got := inTheWay(r, all)
			if slices.Contains(got, all[1]) != NeedsService(r.Strategy) || slices.Contains(got, all[2]) != (r.Rollout.Budget != nil) || !slices.Contains(got, all[0]) {
				t.Errorf("%s, %d routers: %v", kind, replicas, got)
			}
		}
	}
}

func TestOnlyATrueConditionAdmits(t *testing.T) {
	for status, want := range map[operatorv1.ConditionStatus]bool{operatorv1.ConditionTrue: true, operatorv1.ConditionFalse: false, operatorv1.ConditionUnknown: false} {
		ic := controller("x", func(ic *operatorv1.IngressController) {
			ic.Status.Conditions = []operatorv1.OperatorCondition{{Type: Admitted, Status: status}}
		})
		if admitted(ic) != want || admitted(controller("x")) {
			t.Errorf("%s: %t", status, !want)
		}
	}
}

// Nobody asked for a router, so none is missing, however long there is none.
func TestWithoutARouterThatIsWantedNoneIsMissing(t *testing.T) {
	long := metav1.NewTime(day.Add(-2 * restartGrace))
	before := []operatorv1.OperatorCondition{
		{Type: DeploymentAvailable, Status: operatorv1.ConditionTrue}, {Type: MinAvailable, Status: operatorv1.ConditionFalse, LastTransitionTime: long},
	}
	for replicas, want := range map[int32]operatorv1.ConditionStatus{0: operatorv1.ConditionTrue, 2: operatorv1.ConditionFalse} {
		for _, earlier := range [][]operatorv1.OperatorCondition{nil, before} {
			o := Observed{Deployment: deployed(counts{want: replicas}, true)}
			if c := deploymentAvailable(earlier, &Router{Replicas: replicas}, o, day); c.Status != want {
				t.Errorf("%d routers are wanted: %s %s", replicas, c.Status, c.Message)
			}
		}
	}
}
