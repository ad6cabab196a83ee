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
