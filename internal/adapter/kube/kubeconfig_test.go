package kube

import (
	"strings"
	"testing"
)

const twoUsers = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: b25lIGFuZCB0d28=
    server: https://api-int.shop.example.test:6443
  name: shop
contexts:
- context:
    cluster: shop
    user: second
  name: now
current-context: now
kind: Config
users:
- name: first
  user:
    client-certificate-data: Zmlyc3Q=
    client-key-data: Zmlyc3Qga2V5
- name: second
  user:
    client-certificate-data: c2Vjb25k
    client-key-data: c2Vjb25kIGtleQ==
`

func TestTheCertificateOfTheCurrentUserIsReadAndReplacedAlone(t *testing.T) {
	cert, key, err := ClientPair([]byte(twoUsers))
	if err != nil || string(cert) != "second" || string(key) != "second key" {
		t.Errorf("%q, %q, %v", cert, key, err)
	}
	got, err := WithClientCertificate([]byte(twoUsers), []byte("third"))
	if want := strings.Replace(twoUsers, "c2Vjb25k\n", "dGhpcmQ=\n", 1); err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
	named := strings.NewReplacer("client-certificate-data: c2Vjb25k", "client-certificate: /a.pem", "client-key-data: c2Vjb25kIGtleQ==", "client-key: /a.pem").Replace(twoUsers)
	for sentence, text := range map[string]string{"one that names files": named, "one without a context": strings.Replace(twoUsers, "current-context: now", "current-context: never", 1), "an empty one": ""} {
		if cert, key, err := ClientPair([]byte(text)); err != nil || cert != nil || key != nil {
			t.Errorf("%s: %q, %q, %v", sentence, cert, key, err)
		}
	}
}

func TestAKubeconfigThatCannotBeReadIsNotQuoted(t *testing.T) {
	torn := strings.Replace(twoUsers, "kind: Config", "kind: [c2Vjb25kIGtleQ==", 1)
	_, _, err := ClientPair([]byte(torn))
	_, errWrite := WithClientCertificate([]byte(torn), nil)
	for _, err := range []error{err, errWrite} {
		if err == nil || strings.Contains(err.Error(), "c2Vj") {
			t.Errorf("%v", err)
		}
	}
}

func TestTheAuthoritiesOfTheCurrentContextAreReadAndReplacedAlone(t *testing.T) {
	got, err := Authorities([]byte(twoUsers))
	if err != nil || string(got) != "one and two" {
		t.Errorf("%q, %v", got, err)
	}
	changed, err := WithAuthorities([]byte(twoUsers), []byte("three"))
	if want := strings.Replace(twoUsers, "b25lIGFuZCB0d28=", "dGhyZWU=", 1); err != nil || string(changed) != want {
		t.Errorf("%s, %v", changed, err)
	}
	named := strings.Replace(twoUsers, "certificate-authority-data: b25lIGFuZCB0d28=", "certificate-authority: /ca.crt", 1)
	if got, err := Authorities([]byte(named)); err != nil || got != nil {
		t.Errorf("one that names a file: %q, %v", got, err)
	}
	changed, err = WithAuthorities([]byte(named), []byte("one and two"))
	if err != nil || string(changed) != twoUsers {
		t.Errorf("one that named a file: %s, %v", changed, err)
	}
	if _, err := WithAuthorities([]byte("kind: [c2Vj"), nil); err == nil || strings.Contains(err.Error(), "c2Vj") {
		t.Errorf("%v", err)
	}
}

// ofKubeadm is what kubeadm writes into the ConfigMap kube-public/cluster-info: a
// cluster without a name, and no context.
const ofKubeadm = `apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: b25lIGFuZCB0d28=
    server: https://10.0.0.1:6443
  name: ""
contexts: null
current-context: ""
kind: Config
users: null
`

func TestTheAuthoritiesOfAClusterWithoutANameAreReadAndReplaced(t *testing.T) {
	if got, err := Authorities([]byte(ofKubeadm)); err != nil || string(got) != "one and two" {
		t.Errorf("%q, %v", got, err)
	}
	changed, err := WithAuthorities([]byte(ofKubeadm), []byte("three"))
	if err != nil {
		t.Fatal(err)
	}
	if want := strings.Replace(ofKubeadm, "b25lIGFuZCB0d28=", "dGhyZWU=", 1); string(changed) != want {
		t.Errorf("got\n%s\nwant\n%s", changed, want)
	}
	none := "apiVersion: v1\nkind: Config\n"
	if got, err := Authorities([]byte(none)); err != nil || got != nil {
		t.Errorf("without a cluster: %q, %v", got, err)
	}
	if changed, err := WithAuthorities([]byte(none), []byte("three")); err == nil {
		t.Errorf("without a cluster it was written: %s", changed)
	}
}
