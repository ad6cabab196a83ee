package kube

import (
	"encoding/base64"
	"errors"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/holdfast/holdfast/internal/testkit/apitest"
)

func ofServer(t *testing.T) *Client {
	t.Helper()
	set, err := kubernetes.NewForConfig(apitest.Need(t, server).Config)
	if err != nil {
		t.Fatal(err)
	}
	return &Client{set: set}
}

func TestAKeyOfAnObjectIsSwappedOnlyIfItIsAsItWasRead(t *testing.T) {
	c := ofServer(t)
	const namespace, name = "kube-system", "swapped"
	swap := func(key, before, after string) error {
		var was []byte
		if before != "" {
			was = []byte(before)
		}
		return c.SwapSecretKey(t.Context(), namespace, name, key, was, []byte(after))
	}
	for i, step := range []struct {
		key, before, after string
		changed            bool
	}{{"a", "", "1", false}, {"a", "", "2", true}, {"a", "1", "2", false}, {"a", "1", "3", true}, {"b", "", "4", false}} {
		if err := swap(step.key, step.before, step.after); errors.Is(err, ErrChanged) != step.changed || !step.changed && err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	got, err := c.Secret(t.Context(), namespace, name)
	if err != nil || string(got["a"]) != "2" || string(got["b"]) != "4" {
		t.Errorf("%q %v", got, err)
	}
	if err := c.PutConfigMap(t.Context(), namespace, name, nil, map[string]string{"a": "1", "b": "2"}); err != nil {
		t.Fatal(err)
	}
	if err := c.SwapConfigMapKey(t.Context(), namespace, name, "a", "x", "3"); !errors.Is(err, ErrChanged) {
		t.Errorf("another value is overwritten: %v", err)
	}
	if err := c.SwapConfigMapKey(t.Context(), namespace, name, "a", "1", "3"); err != nil {
		t.Error(err)
	}
	if got, err := c.ConfigMap(t.Context(), namespace, name); err != nil || !maps.Equal(got, map[string]string{"a": "3", "b": "2"}) {
		t.Errorf("%v %v", got, err)
	}
}

func TestAConfigMapIsSwappedOnlyIfItIsAsItWasRead(t *testing.T) {
	c := ofServer(t)
	const namespace, name = "kube-system", "swapped-as-a-whole"
	one, two, more := map[string]string{"a": "1"}, map[string]string{"a": "1", "b": "2"}, map[string]string{"b": "3"}
	for i, step := range []struct {
		before, after map[string]string
		changed       bool
	}{{one, two, true}, {nil, one, false}, {nil, two, true}, {two, more, true}, {one, two, false}, {one, more, true}, {two, more, false}} {
		if err := c.SwapConfigMap(t.Context(), namespace, name, step.before, step.after); errors.Is(err, ErrChanged) != step.changed || !step.changed && err != nil {
			t.Errorf("step %d: %v", i, err)
		}
	}
	if got, err := c.ConfigMap(t.Context(), namespace, name); err != nil || !maps.Equal(got, more) {
		t.Errorf("%v %v", got, err)
	}
}

func TestWhichKeySignedATokenInASecretIsRead(t *testing.T) {
	c := ofServer(t)
	if err := c.APIReady(t.Context()); err != nil {
		t.Fatal(err)
	}
	own, err := c.VerifyingKeys(t.Context())
	if err != nil || len(own) != 1 || len(own[0]) != 43 {
		t.Fatalf("the API server verifies by %q: %v", own, err)
	}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "swapped"}}
	if _, err := c.set.CoreV1().ServiceAccounts("default").Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	header := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"` + own[0] + `"}`))
	for name, token := range map[string]string{"swapped-of-it": header + ".hush.hush", "swapped-of-nobody": "hush", "swapped-empty": ""} {
		secret := &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Annotations: map[string]string{corev1.ServiceAccountNameKey: account.Name}},
			Type:       corev1.SecretTypeServiceAccountToken,
		}
		if token != "" {
			secret.Data = map[string][]byte{corev1.ServiceAccountTokenKey: []byte(token)}
		}
		if _, err := c.set.CoreV1().Secrets("default").Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.TokenSecrets(t.Context())
	want := []TokenSecret{{"default", "swapped-of-it", own[0]}, {"default", "swapped-of-nobody", ""}}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v", got, err)
	}
}
