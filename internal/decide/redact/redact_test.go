package redact

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

const (
	password = `s3cr&t/"Pass+word`
	pem      = "-----BEGIN EC PRIVATE KEY-----\nMHcCAQEEIIrYSSNdvzY1kaqaUJ8mVXPU\nAbCdEf==\n-----END EC PRIVATE KEY-----"
)

func TestAKnownSecretIsTakenOutInEveryForm(t *testing.T) {
	r := New(password, "x")
	quoted, _ := json.Marshal(password)
	for name, text := range map[string]string{
		"as it is":                     password,
		"in JSON":                      string(quoted),
		"in a URL":                     "https://h/?q=" + url.QueryEscape(password),
		"in a path":                    url.PathEscape(password),
		"in base64":                    base64.StdEncoding.EncodeToString([]byte(password)),
		"in base64 behind one byte":    base64.StdEncoding.EncodeToString([]byte("a" + password + "tail")),
		"in base64 behind two bytes":   base64.StdEncoding.EncodeToString([]byte("ab" + password + "t")),
		"in base64 of a URL":           base64.URLEncoding.EncodeToString([]byte("user:" + password)),
		"in base64 of base64":          base64.StdEncoding.EncodeToString([]byte(base64.StdEncoding.EncodeToString([]byte("and some more text before " + password)))),
		"in base64 of a whole file":    base64.StdEncoding.EncodeToString([]byte(`{"password":"` + password + `"}`)),
		"as a basic account of a host": "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("admin:"+password)),
	} {
		got := r.Text("before " + text + " after")
		if !strings.Contains(got, Mark) || leaks(got, password) || !strings.HasPrefix(got, "before ") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if got := r.Text("six x's"); got != "six x's" {
		t.Errorf("a secret of one letter: %q", got)
	}
}

// leaks reports whether a secret can be read in a text, decoded or not.
func leaks(text, secret string) bool {
	for shift := range 3 {
		if strings.Contains(text, core(base64.StdEncoding, secret, shift)) {
			return true
		}
	}
	return strings.Contains(text, secret)
}

func TestWhatLooksLikeASecretIsTakenOut(t *testing.T) {
	for text, secret := range map[string]string{
		pem:                    "MHcCAQEE",
		"cut off: " + pem[:60]: "MHcCAQEE",
		pem[32:]:               "IIrYSS",
		`{"key":"` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`:              "MHcCAQEE",
		"client-key-data: " + base64.StdEncoding.EncodeToString([]byte(pem)): "LS0tLS1CRUdJTiBFQy",
		"data: " + base64.StdEncoding.EncodeToString([]byte(pem)):            "LS0tLS1CRUdJTiBFQy",
		"joins with abcdef.0123456789abcdef now":                             "0123456789abcdef",
		"Authorization: Bearer 0a1b2c3d4e5f6071":                             "0a1b2c3d",
		"eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJrdWJlIn0.c2lnbmF0dXJl":              "c2lnbmF0dXJl",
		`password: hunter22`:                                       "hunter22",
		`"password":"hunter22"`:                                    "hunter22",
		`\"password\":\"hunter22\"`:                                "hunter22",
		`password = 'hunter 22'`:                                   "hunter",
		`BMC_PASSWORD=hunter22`:                                    "hunter22",
		`fence_redfish --username admin --password hunter22 -o on`: "hunter22",
		`--password=hunter22`:                                      "hunter22",
		`<nvpair id="x-passwd" name="passwd" value="hunter22"/>`:   "hunter22",
		`<nvpair value="hunter22" id="x" name="password"/>`:        "hunter22",
		`{"name":"DB_PASSWORD","value":"hunter22"}`:                "hunter22",
		`https://admin:hunter22@10.0.0.1/redfish`:                  "hunter22",
		`{"auths":{"r.example":{"auth":"aHVudGVyMjI="}}}`:          "aHVudGVyMjI",
		`  auth_pass hunter22`:                                     "hunter22",
		`  stats auth admin:hunter22`:                              "hunter22",
		`bootstrapToken: "hunter22hunter22"`:                       "hunter22",
		`joinToken=hunter22`:                                       "hunter22",
		`"password":"a \"hunter22\" of mine"`:                      "hunter22",
		`{"log":"{\"password\":\"a \\\"hunter22\"}"}`:              "hunter22",
		`{"log":"{\"password\":\"a \\\\hunter22\"}"}`:              "hunter22",
		`cut off: "password":"hunter22`:                            "hunter22",
		`cut off: {"log":"{\"password\":\"hunter22`:                "hunter22",
	} {
		if got := New().Text(text); strings.Contains(got, secret) || !strings.Contains(got, Mark) {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

// TestHardCase23_TwoPasswordsOnOneLineAreBothTakenOut uses what pcs prints of
// two fence devices, and the command lines of their agents.
func TestHardCase23_TwoPasswordsOnOneLineAreBothTakenOut(t *testing.T) {
	for _, text := range []string{
		`[{"id":"cp-1_redfish","password":"hunter 22","ip":"10.0.0.1"},{"id":"cp-2_redfish","password":"tr0ub \"4dor","ip":"10.0.0.2"}]`,
		`{"nvpairs":[{"id":"a","name":"passwd","value":"hunter 22"},{"id":"b","name":"passwd","value":"tr0ub 4dor"}]}`,
		`<nvpair id="a" name="password" value="hunter 22"/><nvpair id="b" name="password" value="tr0ub 4dor"/>`,
		`fence_redfish --password hunter -o on; fence_redfish --password tr0ub -o on`,
		`fence_redfish --password='hunter 22' -o on; fence_redfish --password='tr0ub 4dor' -o on`,
		`password=hunter action=off password=tr0ub`,
		`https://admin:hunter@10.0.0.1/ https://admin:tr0ub@10.0.0.2/`,
	} {
		got := New().Text(text)
		for _, secret := range []string{"hunter", "22", "tr0ub", "4dor"} {
			if strings.Contains(got, secret) {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
	r := New("hunter 22", "tr0ub 4dor")
	if got := r.Text("asked with hunter 22 and then with tr0ub 4dor, twice: hunter 22"); strings.ContainsAny(got, "24") {
		t.Errorf("known ones with blanks: %q", got)
	}
}

func TestWhatIsNoSecretStays(t *testing.T) {
	for _, text := range []string{
		"token: 1500", "token_retransmits_before_loss_const: 10", `"automountServiceAccountToken":true`, "secretName: tls-cert",
		"secretRef: x", "--token-file=/etc/t", "tokenTTL: 24h0m0s", "the token was lost in ring 5", "password policy",
		"sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "2026-11-20T09:00:00Z", "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		`<nvpair id="a" name="stonith-enabled" value="true"/>`, "kubernetes.io/service-account-token", "10.0.0.5/24 dev eth0", `"secretName": "router-certs"`,
	} {
		if got := New().Text(text); got != text {
			t.Errorf("%q becomes %q", text, got)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add("before "+password+" after", true)
	f.Add(pem, false)
	r := New(password)
	f.Fuzz(func(t *testing.T, text string, encode bool) {
		text += password
		if encode {
			text = base64.StdEncoding.EncodeToString([]byte(text))
		}
		if leaks(r.Text(text), password) {
			t.Errorf("%q leaks", text)
		}
	})
}
